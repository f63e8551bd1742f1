//! Modules and the functions in them: cubins to the recording's folder, names and identities to rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use goblin::elf::Elf;
use stallmap_schema::hash;
use stallmap_schema::id::{FunctionId, ModuleId};
use stallmap_schema::tables::code::Module;
use stallmap_schema::word::LossKind;

use crate::session;

/// Symbol type of functions in ELF.
const STT_FUNC: u8 = 2;
/// Bit of a cubin symbol's `st_other` that marks a kernel.
const ENTRY: u8 = 0x10;

/// One cubin.
#[derive(Debug)]
pub struct Code {
    /// Its identity.
    pub module_id: ModuleId,
    /// Mangled names of its kernels.
    pub kernels: BTreeSet<String>,
    /// Mangled names of functions with code of their own that are no kernels.
    pub functions: Vec<String>,
}

impl Code {
    /// The identity of one of its functions.
    pub fn function_id(&self, name: &str) -> FunctionId {
        hash::function_id(self.module_id, name)
    }
}

/// Every cubin seen in this process, by content.
static SEEN: Mutex<BTreeMap<ModuleId, Arc<Code>>> = Mutex::new(BTreeMap::new());

/// Records a cubin and gives what is in it; one that was seen before costs its hash only.
pub fn register(cubin: &[u8], cupti_crc: Option<u64>) -> Arc<Code> {
    let content = blake3::hash(cubin);
    let module_id = hash::module_id(cubin);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(code) = seen.get(&module_id) {
        return Arc::clone(code);
    }
    let content_hash = content.to_hex().to_string();
    let name = format!("{content_hash}.cubin");
    let stored = session::directory().map(|directory| store(&directory.join("cubins"), &name, cubin));
    let file = match stored {
        Some(Ok(())) => Some(format!("cubins/{name}")),
        Some(Err(error)) => {
            session::lose(LossKind::Code, "cubin could not be written", 1, Some(error.to_string()));
            None
        }
        None => None,
    };
    session::emit(Module {
        module_id,
        content_hash,
        cubin_bytes: cubin.len() as u64,
        cupti_crc,
        sm: None,
        file,
        zeroed_bytes: 0,
    });
    let code = Arc::new(parse(module_id, cubin));
    seen.insert(module_id, Arc::clone(&code));
    code
}

/// Writes a cubin under its content's name, whole or not at all.
fn store(folder: &Path, name: &str, cubin: &[u8]) -> std::io::Result<()> {
    let path = folder.join(name);
    if path.exists() {
        return Ok(());
    }
    let temporary = folder.join(format!("{name}.{}", std::process::id()));
    std::fs::write(&temporary, cubin)?;
    std::fs::rename(&temporary, &path)
}

fn parse(module_id: ModuleId, cubin: &[u8]) -> Code {
    let mut code = Code { module_id, kernels: BTreeSet::new(), functions: Vec::new() };
    let elf = match Elf::parse(cubin) {
        Ok(elf) => elf,
        Err(error) => {
            session::lose(LossKind::Code, "cubin could not be read", 1, Some(error.to_string()));
            return code;
        }
    };
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
