//! What a cubin holds: architecture, sections of code, functions in them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::word::Sm;

/// A cubin that was read.
#[derive(Clone, Debug)]
pub struct Cubin {
    /// The architecture that it is for.
    pub sm: Sm,
    /// Sections that hold code, in the order of their place in the file.
    pub sections: Vec<Section>,
}

/// A section of code: a kernel and the functions that only it calls, or a function.
#[derive(Clone, Debug)]
pub struct Section {
    /// Name, such as `.text.saxpy`.
    pub name: String,
    /// Where its code is in the file.
    pub bytes: Range<usize>,
    /// Its functions, by offset.
    pub functions: Vec<Function>,
    /// By offset of an indirect branch: the offsets that it may go to.
    pub branch_targets: BTreeMap<u32, Vec<u32>>,
    /// By offset of an instruction that a relocation completes: the function whose address it takes.
    pub references: BTreeMap<u32, String>,
}

/// A function's code: from its offset up to the next function's or the section's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Mangled name.
    pub name: String,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// Where it begins in its section, bytes: 0 for kernels.
    pub offset: u32,
    /// Bytes of its own code.
    pub bytes: u32,
}
