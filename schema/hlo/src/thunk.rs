//! Thunks: what XLA's runtime executes, in order. One for each kernel, copy, library call and loop.

use crate::shape::ArrayShape;
use crate::wire::{WireFields, WireValue};

/// Maximum number of thunks of an executable.
pub const MAX_THUNKS: usize = 1 << 20;
/// Maximum depth of thunks in each other.
const MAX_DEPTH: usize = 32;
/// Maximum number of buffers of a thunk.
const MAX_BUFFERS: usize = 4_096;

/// Kinds of thunks, by their field.
const WHILE: u64 = 7;
const KERNEL: u64 = 36;
const MATRIX_PRODUCT: u64 = 22;
/// The field of its result.
const PRODUCT: u64 = 8;

/// One thunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchThunk<'a> {
    /// The name of its instruction.
    pub name: &'a str,
    /// Its kernel. `None` where it launches none of its own.
    pub kernel: Option<ThunkKernel<'a>>,
    /// The arguments of its kernel or library call: parts of blocks of memory.
    pub buffers: Vec<BufferSlice<'a>>,
    /// The thunks that it runs.
    pub children: Vec<LaunchThunk<'a>>,
    /// True if it runs them again and again.
    pub is_loop: bool,
}

/// A thunk's kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThunkKernel<'a> {
    /// Its name. Thunks that compute the same share one.
    pub name: &'a str,
    /// Its code.
    pub cubin: &'a [u8],
}

/// A part of a block of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferSlice<'a> {
    /// The block.
    pub allocation: u64,
    /// First byte in the block.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// True if the kernel writes it.
    pub is_written: bool,
    /// The type of its value: see [`ArrayShape`].
    pub shape: &'a [u8],
}

impl<'a> LaunchThunk<'a> {
    /// Reads a thunk. `None` where it has no name, or where there are too many.
    pub fn read(bytes: &'a [u8], depth: usize, budget: &mut usize) -> Option<Self> {
        *budget = budget.checked_sub(1)?;
        let info = WireFields::message(bytes, 1)?;
        let name = WireFields::new(info).find(|(tag, _)| *tag == 1).map_or("", |(_, name)| name.text());
        let mut thunk = Self { name, ..Self::default() };
        for (tag, value) in WireFields::new(bytes) {
            match (tag, value.bytes()) {
                (1, _) | (_, None) => {}
                (KERNEL, Some(kernel)) => thunk.add_kernel(kernel),
                (tag, Some(other)) => {
                    thunk.is_loop |= tag == WHILE;
                    thunk.add_buffers(other, tag == MATRIX_PRODUCT);
                    thunk.add_children(other, depth, budget);
                }
            }
        }
        Some(thunk)
    }

    fn add_kernel(&mut self, bytes: &'a [u8]) {
        let (mut kernel, mut written) = (ThunkKernel::default(), Vec::new());
        for (tag, value) in WireFields::new(bytes) {
            match tag {
                1 if self.buffers.len() < MAX_BUFFERS => self.buffers.push(BufferSlice::read(value)),
                2 => value.add_numbers(&mut written),
                3 => kernel.read_code(value),
                _ => {}
            }
        }
        for (buffer, is_written) in self.buffers.iter_mut().zip(written) {
            buffer.is_written = is_written != 0;
        }
        self.kernel = Some(kernel);
    }

    /// Adds the buffers of a library call: fields of their own.
    fn add_buffers(&mut self, call: &'a [u8], is_product: bool) {
        for (tag, value) in WireFields::new(call) {
            let buffer = BufferSlice::read(value);
            if buffer.size > 0 && ArrayShape::read(buffer.shape).is_some() && self.buffers.len() < MAX_BUFFERS
            {
                self.buffers.push(BufferSlice { is_written: is_product && tag == PRODUCT, ..buffer });
            }
        }
        // A product that adds to nothing names its result twice.
        if let [.., added, product] = self.buffers.as_slice()
            && product.is_written
            && (added.allocation, added.offset) == (product.allocation, product.offset)
        {
            self.buffers.remove(self.buffers.len() - 2);
        }
    }

    /// Adds the thunks of every sequence in a field.
    fn add_children(&mut self, other: &'a [u8], depth: usize, budget: &mut usize) {
        if depth == MAX_DEPTH {
            return;
        }
        for (_, value) in WireFields::new(other) {
            let Some(sequence) = value.bytes().filter(|bytes| is_sequence(bytes)) else { continue };
            let thunks = WireFields::new(sequence).filter_map(|(_, thunk)| thunk.bytes());
            self.children.extend(thunks.filter_map(|thunk| Self::read(thunk, depth + 1, budget)));
        }
    }
}

/// True for a sequence of thunks: nothing but messages, the first of which names an instruction.
fn is_sequence(bytes: &[u8]) -> bool {
    let first = WireFields::message(bytes, 1).and_then(|thunk| WireFields::message(thunk, 1));
    let name = first.and_then(|info| WireFields::message(info, 1)).unwrap_or(&[]);
    let is_name = |byte: &u8| byte.is_ascii_graphic();
    !name.is_empty() && name.iter().all(is_name) && WireFields::new(bytes).all(|(tag, _)| tag == 1)
}

impl<'a> ThunkKernel<'a> {
    fn read_code(&mut self, value: WireValue<'a>) {
        let bytes = value.bytes().unwrap_or(&[]);
        let loader = WireFields::message(bytes, 2).unwrap_or(&[]);
        let name = WireFields::message(loader, 4).or_else(|| WireFields::message(bytes, 1));
        self.name = name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or("");
        self.cubin =
            WireFields::message(loader, 2).and_then(|code| WireFields::message(code, 1)).unwrap_or(&[]);
    }
}

impl<'a> BufferSlice<'a> {
    fn read(value: WireValue<'a>) -> Self {
        let bytes = value.bytes().unwrap_or(&[]);
        let mut slice = Self { shape: WireFields::message(bytes, 2).unwrap_or(&[]), ..Self::default() };
        for (tag, value) in WireFields::new(WireFields::message(bytes, 1).unwrap_or(&[])) {
            match tag {
                1 => slice.offset = value.number(),
                2 => slice.size = value.number(),
                3 => slice.allocation = value.number(),
                _ => {}
            }
        }
        slice
    }
}
