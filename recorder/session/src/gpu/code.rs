//! Modules with their functions: cubins to the recording's folder, names to rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use goblin::elf::Elf;
use stallmap_schema::hash;
use stallmap_schema::id::{FunctionId, ModuleId};
use stallmap_schema::tables::code::Module;
use stallmap_schema::word::LossKind;

use crate::session;

mod calls;
mod variables;

/// The driver's function by which a kernel allocates memory.
const ALLOCATION: &str = "malloc";

/// Symbol type of functions in ELF.
const STT_FUNC: u8 = 2;
/// Bit of a cubin symbol's `st_other` that marks a kernel.
const ENTRY: u8 = 0x10;

/// One cubin.
#[derive(Debug)]
pub struct LoadedCode {
    /// Its identity.
    pub module_id: ModuleId,
    /// Mangled names of its kernels.
    pub kernels: BTreeSet<String>,
    /// Mangled names of functions with code of their own that are not kernels.
    pub functions: Vec<String>,
    /// Mangled names of its variables, and their bytes.
    pub variables: Vec<(String, u64)>,
    /// Names of these kernels and functions that allocate memory themselves.
    pub allocating: BTreeSet<String>,
    /// Path of its stored cubin.
    pub path: Option<PathBuf>,
}

impl LoadedCode {
    /// The identity of one of its functions.
    pub fn function_id(&self, name: &str) -> FunctionId {
        hash::function_id(self.module_id, name)
    }
}

/// Stored cubins that stand for others, by their own content: which module, and its content's hash.
static ALIASES: Mutex<BTreeMap<[u8; 32], (ModuleId, String)>> = Mutex::new(BTreeMap::new());

/// Says that a cubin, when it is loaded, is to be recorded as another one: a capture stores cubins without the code that
/// nothing used, and replays are to name the module that the program loaded.
pub fn alias(cubin: &[u8], module_id: ModuleId, content_hash: &str) {
    let mut aliases = ALIASES.lock().unwrap_or_else(PoisonError::into_inner);
    aliases.insert(*blake3::hash(cubin).as_bytes(), (module_id, content_hash.to_owned()));
}

/// The module that a cubin is recorded as, with its content's hash. The last says whether it stands for another.
fn identify(cubin: &[u8]) -> (ModuleId, String, bool) {
    let content = blake3::hash(cubin);
    let aliases = ALIASES.lock().unwrap_or_else(PoisonError::into_inner);
    match aliases.get(content.as_bytes()) {
        Some((module_id, content_hash)) => (*module_id, content_hash.clone(), true),
        None => (hash::module_id(cubin), content.to_hex().to_string(), false),
    }
}

/// Every cubin seen in this process, by content.
static SEEN: Mutex<BTreeMap<ModuleId, Arc<LoadedCode>>> = Mutex::new(BTreeMap::new());

/// Records a cubin and returns its content. One that was seen before costs its hash only.
pub fn register(cubin: &[u8], cupti_crc: Option<u64>) -> Arc<LoadedCode> {
    let (module_id, content_hash, is_alias) = identify(cubin);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(code) = seen.get(&module_id) {
        return Arc::clone(code);
    }
    let name = format!("{content_hash}.cubin");
    let directory = session::directory().filter(|_| !is_alias).map(|directory| directory.join("cubins"));
    let stored = directory.as_deref().map(|directory| store(directory, &name, cubin));
    let file = match stored {
        Some(Ok(())) => Some(format!("cubins/{name}")),
        Some(Err(error)) => {
            session::lose(LossKind::Code, "cubin could not be written", 1, Some(error.to_string()));
            None
        }
        None => None,
    };
    let is_stored = file.is_some();
    session::emit(Module {
        module_id,
        content_hash,
        cubin_bytes: cubin.len() as u64,
        cupti_crc,
        sm: None,
        file,
        zeroed_bytes: 0,
    });
    let mut code = parse(module_id, cubin);
    code.path = directory.filter(|_| is_stored).map(|directory| directory.join(name));
    let code = Arc::new(code);
    seen.insert(module_id, Arc::clone(&code));
    code
}

/// Writes a cubin under its content's name, completely or not at all.
fn store(folder: &Path, name: &str, cubin: &[u8]) -> std::io::Result<()> {
    let path = folder.join(name);
    if path.exists() {
        return Ok(());
    }
    let temporary = folder.join(format!("{name}.{}", std::process::id()));
    std::fs::write(&temporary, cubin)?;
    std::fs::rename(&temporary, &path)
}

fn parse(module_id: ModuleId, cubin: &[u8]) -> LoadedCode {
    let mut code = LoadedCode {
        module_id,
        kernels: BTreeSet::new(),
        functions: Vec::new(),
        variables: Vec::new(),
        allocating: BTreeSet::new(),
        path: None,
    };
    let elf = match Elf::parse(cubin) {
        Ok(elf) => elf,
        Err(error) => {
            session::lose(LossKind::Code, "cubin could not be read", 1, Some(error.to_string()));
            return code;
        }
    };
    code.variables = variables::from_elf(&elf);
    code.allocating = calls::callers(&elf, cubin, ALLOCATION);
    for symbol in elf.syms.iter().filter(|symbol| symbol.st_type() == STT_FUNC && symbol.st_shndx != 0) {
        let Some(name) = elf.strtab.get_at(symbol.st_name) else { continue };
        if symbol.st_other & ENTRY != 0 {
            code.kernels.insert(name.to_owned());
        } else if symbol.st_value == 0 {
            // A function at another offset lies inside its caller's section and has the caller's pcs.
            code.functions.push(name.to_owned());
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_recorded_as_what_it_stands_for() {
        let stored = b"a cubin without the code that nothing used";
        assert_eq!(
            identify(stored),
            (hash::module_id(stored), blake3::hash(stored).to_hex().to_string(), false)
        );
        alias(stored, ModuleId(7), "the whole one's hash");
        assert_eq!(identify(stored), (ModuleId(7), "the whole one's hash".to_owned(), true));
        assert_eq!(register(stored, None).module_id, ModuleId(7));
    }
}
