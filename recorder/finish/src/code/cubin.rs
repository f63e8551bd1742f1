//! What a cubin's ELF says: architecture, functions, where their code is in the file.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use goblin::elf::Elf;
use goblin::elf::section_header::SHT_PROGBITS;
use goblin::elf::sym::STT_FUNC;

/// `e_machine` of cubins.
const EM_CUDA: u16 = 190;
/// `EI_OSABI` of cubins whose flags hold the architecture in the second byte (CUDA 13, and earlier for sm_100).
const OSABI_NEW: u8 = 0x41;
const EI_OSABI: usize = 7;
/// Bit of a symbol's `st_other` that says that it is a kernel.
const STO_CUDA_ENTRY: u8 = 0x10;
const TEXT: &str = ".text.";

/// A cubin that was read.
#[derive(Debug)]
pub(super) struct Cubin {
    /// Such as 90 for sm_90.
    pub(super) sm: u32,
    /// Functions, in the order of their place in the file.
    pub(super) functions: Vec<Code>,
}

/// A function's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    /// Mangled name.
    pub(super) name: String,
    /// Whether it is a kernel.
    pub(super) is_kernel: bool,
    /// Bytes of the file that hold its instructions.
    pub(super) bytes: Range<usize>,
    /// Offset of its first instruction in its section: 0 for kernels.
    pub(super) offset: u32,
    /// Bytes of the file that hold its section, which may hold functions that only it calls.
    pub(super) section: Range<usize>,
}

impl Cubin {
    /// Reads a cubin; an error says what is wrong with it.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        // Cubins come from any program: what the ELF reader does with a malformed one stays here.
        catch_unwind(AssertUnwindSafe(|| parse(bytes))).unwrap_or_else(|_| Err("it is malformed".to_owned()))
    }
}

fn parse(bytes: &[u8]) -> Result<Cubin, String> {
    let elf = Elf::parse(bytes).map_err(|cause| cause.to_string())?;
    if elf.header.e_machine != EM_CUDA {
        return Err(format!("it is for machine {}, not for a GPU", elf.header.e_machine));
    }
    let flags = elf.header.e_flags;
    let sm = if elf.header.e_ident[EI_OSABI] == OSABI_NEW { flags >> 8 & 0xff } else { flags & 0xff };
    let mut functions: Vec<Code> = elf
        .syms
        .iter()
        .filter(|symbol| symbol.st_type() == STT_FUNC)
        .filter_map(|symbol| function(&elf, &symbol, bytes.len()))
        .collect();
    functions.sort_unstable_by(|a, b| (a.bytes.start, &a.name).cmp(&(b.bytes.start, &b.name)));
    functions.dedup();
    Ok(Cubin { sm, functions })
}

/// The function of a symbol; `None` where its code is not in the file.
fn function(elf: &Elf<'_>, symbol: &goblin::elf::Sym, file_bytes: usize) -> Option<Code> {
    let header = elf.section_headers.get(symbol.st_shndx)?;
    let section_name = elf.shdr_strtab.get_at(header.sh_name)?;
    if header.sh_type != SHT_PROGBITS || !section_name.starts_with(TEXT) {
        return None;
    }
    let section_start = usize::try_from(header.sh_offset).ok()?;
    let section_end = section_start.checked_add(usize::try_from(header.sh_size).ok()?)?;
    let start = section_start.checked_add(usize::try_from(symbol.st_value).ok()?)?;
    let end = start.checked_add(usize::try_from(symbol.st_size).ok()?)?;
    if end > section_end || section_end > file_bytes {
        return None;
    }
    Some(Code {
        name: elf.strtab.get_at(symbol.st_name)?.to_owned(),
        is_kernel: symbol.st_other & STO_CUDA_ENTRY != 0,
        bytes: start..end,
        offset: u32::try_from(symbol.st_value).ok()?,
        section: section_start..section_end,
    })
}
