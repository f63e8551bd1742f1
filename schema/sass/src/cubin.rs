//! Contents of a cubin: architecture, sections of code, functions in them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub use self::callees::KernelCallees;
use crate::word::Sm;

mod callees;
mod info;
mod read;

/// A cubin that was read.
#[derive(Clone, Debug)]
pub struct Cubin {
    /// The architecture that it is for.
    pub sm: Sm,
    /// Sections that hold code, in the order of their offset in the file.
    pub sections: Vec<CodeSection>,
    /// Functions whose addresses stand in its data: any of its kernels may call or launch them.
    pub pointed: BTreeSet<String>,
    /// The unreadable parts, with reasons. The rest is valid.
    pub damage: Vec<String>,
}

/// A section of code: a kernel and the functions that only it calls, or a function.
#[derive(Clone, Debug, Default)]
pub struct CodeSection {
    /// Name, such as `.text.saxpy`.
    pub name: String,
    /// Range of its code in the file.
    pub bytes: Range<usize>,
    /// Its functions, by offset.
    pub functions: Vec<CubinFunction>,
    /// By offset of an indirect branch: the offsets that it may go to.
    pub branch_targets: BTreeMap<u32, Vec<u32>>,
    /// By offset of an instruction that a relocation completes: the function whose address it takes.
    pub references: BTreeMap<u32, String>,
    /// Names of functions that it calls and that are in no cubin, such as `vprintf`: the driver has them.
    pub driver_calls: BTreeSet<String>,
    /// The kernel's parameters, by ordinal. Empty for functions.
    pub parameters: Vec<CubinParameter>,
    /// Start of the kernel's parameters in constant bank 0, bytes.
    pub parameters_offset: Option<u32>,
    /// General registers that a lane has.
    pub registers: Option<u32>,
}

/// A function's code: from its offset up to the next function's or its own end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CubinFunction {
    /// Mangled name.
    pub name: String,
    /// True if it is a kernel.
    pub is_kernel: bool,
    /// Start in its section, bytes: 0 for kernels.
    pub offset: u32,
    /// Bytes of its own code.
    pub bytes: u32,
    /// Bytes that its symbol claims: a kernel's holds the functions behind it.
    pub symbol_bytes: u32,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CubinParameter {
    /// Its position among the parameters, from 0 on.
    pub ordinal: u32,
    /// Start among the parameters, bytes.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
}

/// The reason why bytes are not a cubin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CubinError {
    /// Not an ELF file, or none whose sections can be found.
    #[error("it is not a readable ELF file: {cause}")]
    Elf {
        /// The cause.
        cause: String,
    },
    /// An ELF file for something else.
    #[error("it is for machine {machine}, not for a GPU")]
    Machine {
        /// The machine's number in ELF.
        machine: u16,
    },
    /// The reader gave up on damaged headers.
    #[error("it is malformed")]
    Malformed,
}

impl Cubin {
    /// Reads a cubin. What is damaged in it beyond its headers is named in [`Cubin::damage`] and missing.
    pub fn read(bytes: &[u8]) -> Result<Self, CubinError> {
        read::read(bytes)
    }
}

impl CodeSection {
    /// The function that holds an offset.
    pub fn function_at(&self, offset: u32) -> Option<&CubinFunction> {
        let behind = self.functions.partition_point(|function| function.offset <= offset);
        let function = self.functions.get(behind.checked_sub(1)?)?;
        (offset - function.offset < function.bytes).then_some(function)
    }
}
