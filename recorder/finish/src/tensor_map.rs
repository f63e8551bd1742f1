//! Tensor maps (TMA descriptors) in a launch's parameters.
//!
//! A tensor map is 128 bytes, aligned to 64, that the driver encodes; kernels get it by value. Its layout is not
//! documented, so only what was measured on hardware is decoded here. Until that is known for a generation, nothing
//! is found, and `function.uncovered_instruction_count` says how much that leaves unseen.

use stallmap_schema::id::Address;

/// A tensor map found in parameter bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it begins in the parameters.
    pub parameter_offset: u32,
    /// Base address of the tensor.
    pub address: Address,
    /// Elements in each dimension, innermost first.
    pub sizes: Vec<u64>,
    /// Bytes between neighbours in each dimension but the innermost.
    pub strides: Vec<u64>,
    /// Elements of the box, innermost first.
    pub box_sizes: Vec<u32>,
    /// CUtensorMapDataType's number.
    pub element_type: Option<u32>,
    /// Bytes of an element.
    pub element_bytes: Option<u32>,
}

/// Every tensor map in a launch's parameters, in the order of their offsets.
pub fn find(parameters: &[u8]) -> Vec<Found> {
    const BYTES: usize = 128;
    const ALIGNMENT: usize = 64;
    let offsets = (0..parameters.len()).step_by(ALIGNMENT);
    offsets.filter_map(|offset| decode(offset, parameters.get(offset..offset + BYTES)?)).collect()
}

/// The tensor map in 128 bytes, if they are one.
fn decode(_offset: usize, _descriptor: &[u8]) -> Option<Found> {
    None
}
