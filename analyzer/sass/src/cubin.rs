//! Content of a cubin: architecture, sections of code, functions in them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::word::Sm;

mod info;
mod read;

/// A cubin that was read.
#[derive(Clone, Debug)]
pub struct Cubin {
    /// Its architecture.
    pub sm: Sm,
    /// Sections that hold code, in file order.
    pub sections: Vec<Section>,
    /// Unreadable parts with reasons. The rest is valid.
    pub damage: Vec<String>,
}

/// A section of code: a kernel and the functions that only it calls, or a function.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Name, such as `.text.saxpy`.
    pub name: String,
    /// Range of its code in the file.
    pub bytes: Range<usize>,
    /// Its functions, by offset.
    pub functions: Vec<Function>,
    /// By offset of an indirect branch: the offsets that it may go to.
    pub branch_targets: BTreeMap<u32, Vec<u32>>,
    /// By offset of an instruction with a relocation: the function whose address it takes.
    pub references: BTreeMap<u32, String>,
    /// The kernel's parameters, by ordinal. Empty for functions.
    pub parameters: Vec<Parameter>,
    /// Offset of the kernel's parameters in constant bank 0, bytes.
    pub parameters_offset: Option<u32>,
    /// General registers of a lane.
    pub registers: Option<u32>,
}

/// A function's code: from its offset to the next function's or its own end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Mangled name.
    pub name: String,
    /// True for a kernel.
    pub is_kernel: bool,
    /// Offset in its section, bytes: 0 for kernels.
    pub offset: u32,
    /// Bytes of its own code.
    pub bytes: u32,
    /// Size of its symbol in bytes: a kernel's symbol includes the functions after it.
    pub symbol_bytes: u32,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Parameter {
    /// Position among the parameters, from 0.
    pub ordinal: u32,
    /// Offset among the parameters, bytes.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
}

/// Why bytes are no cubin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CubinError {
    /// Not an ELF file, or none whose sections can be found.
    #[error("it is not a readable ELF file: {cause}")]
    Elf {
        /// Cause of the error.
        cause: String,
    },
    /// An ELF file for something else.
    #[error("it is for machine {machine}, not for a GPU")]
    Machine {
        /// The machine's number in ELF.
        machine: u16,
    },
    /// Unreadable.
    #[error("it is malformed")]
    Malformed,
}

impl Cubin {
    /// Reads a cubin. Damaged parts beyond its headers are missing, and listed in [`Cubin::damage`].
    pub fn read(bytes: &[u8]) -> Result<Self, CubinError> {
        read::read(bytes)
    }
}

impl Section {
    /// The function at an offset.
    pub fn function_at(&self, offset: u32) -> Option<&Function> {
        let behind = self.functions.partition_point(|function| function.offset <= offset);
        let function = self.functions.get(behind.checked_sub(1)?)?;
        (offset - function.offset < function.bytes).then_some(function)
    }
}
