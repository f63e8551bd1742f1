//! Tensor maps (TMA descriptors) in a launch's parameters.
//!
//! The driver's encoding is not documented. This layout was measured on an H200 and an H100 by encoding maps that differ
//! in one field (`testdata/programs/tensor_map.cu`); the first 64 bytes are what the hardware reads, and libraries that make
//! their own maps pass only those. As 32-bit words:
//!
//! | word | meaning |
//! |---|---|
//! | 0, 1 | base address, a multiple of 16 |
//! | 2 | bit 0 set in maps of convolutions (im2col); bit 1 set by cuBLAS in its own maps; bits 4-6 rank - 1; 7-10 element type; 13-14 swizzle; 16 tensor float; 17-18 L2 promotion |
//! | 3-6 | stride of dimensions 1 to 4 in 16 bytes, low 32 bits; anything beyond the rank |
//! | 7 | bits 4i to 4i+3: high bits of the stride of dimension i+1 |
//! | 8-12 | size of dimensions 0 to 4, minus 1 |
//! | 13 | bits 0-14: traversal strides minus 1; 24-31: box size of dimension 0 minus 1 |
//! | 14 | bits 8i to 8i+7: box size of dimension i+1 minus 1; im2col: the corners of the box of pixels |
//! | 15 | 0; im2col: pixels of a copy minus 1 |
//!
//! The innermost dimension of an im2col map is the channels. A copy brings a number of pixels of it.
//!
//! Other bytes may look like a map, so only maps whose base lies in known device memory count.

/// A tensor map found in parameter bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTensorMap {
    /// Start in the parameters.
    pub parameter_offset: u32,
    /// Base address of the tensor.
    pub address: u64,
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

/// Bytes that the hardware reads.
const BYTES: usize = 64;
/// Descriptors are aligned to 64 bytes in constant memory, where parameters begin at a multiple of 16.
const ALIGNMENT: usize = 16;
/// Bits of word 2 that no field was seen to use.
const UNUSED: u32 = 0xfff8_000c;
/// Bit of word 2: the map is one of a convolution.
const IM2COL: u32 = 1;
/// Maximum number of pixels of a copy by an im2col map.
const MAX_PIXELS: u32 = 1024;
/// Bit of word 2: the element type is a tensor float.
const TENSOR_FLOAT: u32 = 1 << 16;

/// Every tensor map in a launch's parameters whose base is device memory, in the order of their offsets.
pub fn find(parameters: &[u8], is_device_memory: impl Fn(u64) -> bool) -> Vec<FoundTensorMap> {
    let mut found = Vec::new();
    let mut offset = 0;
    while let Some(bytes) = parameters.get(offset..offset + BYTES) {
        match decode(offset, bytes).filter(|map| is_device_memory(map.address)) {
            Some(map) => {
                found.push(map);
                offset += BYTES;
            }
            None => offset += ALIGNMENT,
        }
    }
    found
}

/// The tensor map in 64 bytes, if they are one.
fn decode(offset: usize, bytes: &[u8]) -> Option<FoundTensorMap> {
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    let rank = (words[2] >> 4 & 7) as usize + 1;
    let address = u64::from(words[0]) | u64::from(words[1]) << 32;
    let is_im2col = words[2] & IM2COL != 0;
    let fits_kind = if is_im2col { rank >= 3 && words[15] < MAX_PIXELS } else { words[15] == 0 };
    if words[2] & UNUSED != 0 || rank > 5 || !fits_kind || address == 0 || address & 15 != 0 {
        return None;
    }
    let (element_type, element_bytes) = element(words[2])?;
    let sizes: Vec<u64> = words[8..13].iter().map(|&less_one| u64::from(less_one) + 1).collect();
    let strides: Vec<u64> = (0..4)
        .map(|index| (u64::from(words[3 + index]) | u64::from(words[7] >> (4 * index) & 15) << 32) * 16)
        .collect();
    let box_bytes = if is_im2col { [0; 4] } else { words[14].to_le_bytes() };
    let mut box_sizes: Vec<u32> = std::iter::once(words[13] >> 24)
        .chain(box_bytes.map(u32::from))
        .map(|less_one| less_one + 1)
        .collect();
    if is_im2col {
        box_sizes[1] = words[15] + 1;
    }
    let unused_is_empty =
        sizes[rank..].iter().all(|&size| size == 1) && box_sizes[rank..].iter().all(|&size| size == 1);
    // A dimension of one element has no neighbour, and its stride may be anything. Matrices of a batch may be one.
    let rows_fit = (rank == 1 || sizes[1] == 1 || strides[0] > 0)
        && (u64::from(box_sizes[0]) * u64::from(element_bytes)).is_multiple_of(16);
    (unused_is_empty && rows_fit).then(|| FoundTensorMap {
        // Parameters have up to 64 KiB.
        parameter_offset: u32::try_from(offset).unwrap_or(u32::MAX),
        address,
        sizes: sizes[..rank].to_vec(),
        strides: strides[..rank - 1].to_vec(),
        box_sizes: box_sizes[..rank].to_vec(),
        element_type: Some(element_type),
        element_bytes: Some(element_bytes),
    })
}

/// CUtensorMapDataType's number and the bytes of an element, by the hardware's code.
fn element(word: u32) -> Option<(u32, u32)> {
    const TYPES: [(u32, u32); 11] =
        [(0, 1), (1, 2), (2, 4), (3, 4), (4, 8), (5, 8), (6, 2), (7, 4), (10, 4), (8, 8), (9, 2)];
    let code = word >> 7 & 15;
    match (code, word & TENSOR_FLOAT != 0) {
        (7, true) => Some((11, 4)),
        (8, true) => Some((12, 4)),
        (_, true) => None,
        (code, false) => TYPES.get(code as usize).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of cuTensorMapEncodeTiled on an H200.
    fn measured(words: [u32; 16]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_matrix_of_bfloat16() {
        let bytes = measured([
            0xfe00_1230,
            0x7f76,
            0x510,
            0x100,
            0,
            0,
            0,
            0,
            0x7ff,
            0x1ff,
            0,
            0,
            0,
            0x3f00_0000,
            0x7f,
            0,
        ]);
        let expected = FoundTensorMap {
            parameter_offset: 48,
            address: 0x7f76_fe00_1230,
            sizes: vec![2048, 512],
            strides: vec![4096],
            box_sizes: vec![64, 128],
            element_type: Some(9),
            element_bytes: Some(2),
        };
        let parameters = [vec![0; 48], bytes, vec![0; 24]].concat();
        assert_eq!(find(&parameters, |_| true), [expected]);
    }

    #[test]
    fn five_dimensions_of_float32() {
        let bytes = measured([
            0xfe00_0000,
            0x7f76,
            0x3c0,
            0x19,
            0x2ee,
            0x3a98,
            0x19a28,
            0,
            0x63,
            0x1d,
            0x13,
            6,
            4,
            0x0700_0000,
            0x0401_030f,
            0,
        ]);
        let [found] = &find(&bytes, |_| true)[..] else { panic!("not found") };
        assert_eq!(found.sizes, [100, 30, 20, 7, 5]);
        assert_eq!(found.strides, [400, 12_000, 240_000, 1_680_000]);
        assert_eq!(found.box_sizes, [8, 16, 4, 2, 5]);
        assert_eq!((found.element_type, found.element_bytes), (Some(7), Some(4)));
    }

    #[test]
    fn a_stride_beyond_32_bits() {
        let bytes = measured([
            0xfe00_0000,
            0x7f76,
            0x520,
            0x2_0000,
            0,
            0,
            0,
            0x10,
            0xf_ffff,
            0xfff,
            2,
            0,
            0,
            0x3f00_0000,
            7,
            0,
        ]);
        assert_eq!(find(&bytes, |_| true)[0].strides, [2_097_152, 1 << 36]);
    }

    /// Output of cuTensorMapEncodeIm2col on an H100: 3 x 16 x 48 x 56 pixels of 128 channels in bfloat16, 200 a copy, of
    /// 64 channels.
    #[test]
    fn a_map_of_a_convolution() {
        let bytes = measured([
            0x2600_0000,
            0x7f71,
            0x4_6541,
            0x10,
            0x380,
            0xa800,
            0xa_8000,
            0,
            0x7f,
            0x37,
            0x2f,
            0xf,
            2,
            0x3f00_0000,
            0x0c41_77df,
            0xc7,
        ]);
        let [found] = &find(&bytes, |_| true)[..] else { panic!("not found") };
        assert_eq!(found.sizes, [128, 56, 48, 16, 3]);
        assert_eq!(found.box_sizes, [64, 200, 1, 1, 1]);
    }

    #[test]
    fn ordinary_parameters_are_no_maps() {
        let pointers: Vec<u8> =
            (0..64_u64).flat_map(|n| (0x7f76_fe00_0000 + n * 512).to_le_bytes()).collect();
        assert_eq!(find(&pointers, |_| true), []);
        assert_eq!(find(&[0; 256], |_| true), []);
        assert_eq!(find(&[0xff; 256], |_| true), []);
    }

    /// From the parameters of an nvjet kernel: x @ w.t() with w 1536 x 512, bf16.
    #[test]
    fn a_map_that_cublas_made() {
        let bytes = measured([
            0xdcb0_0000,
            0x7f58,
            0x4_6522,
            0x40,
            0,
            0x1000_0000,
            0,
            0,
            0x1ff,
            0x5ff,
            0,
            0,
            0,
            0x3f00_0000,
            0x5f,
            0,
        ]);
        let [found] = &find(&bytes, |address| address == 0x7f58_dcb0_0000)[..] else { panic!("not found") };
        assert_eq!((&found.sizes[..], &found.strides[..]), (&[512, 1536, 1][..], &[1024, 0][..]));
        assert_eq!(found.box_sizes, [64, 96, 1]);
        assert_eq!(find(&bytes, |_| false), []);
    }

    /// From the parameters of a cuBLAS kernel for tensor floats: 2,048 x 1,536 in any number of batches.
    #[test]
    fn a_map_of_one_matrix_for_all_batches() {
        let bytes = measured([
            0x6480_7c00,
            0x7fca,
            0x5_63b2,
            0x180,
            0,
            0,
            0,
            0,
            0x5ff,
            0x7ff,
            0,
            0x7fff_fffe,
            0,
            0x1f00_0000,
            0xf,
            0,
        ]);
        let [found] = &find(&bytes, |_| true)[..] else { panic!("not found") };
        assert_eq!((&found.sizes[..2], &found.strides[..]), (&[1536, 2048][..], &[6144, 0, 0][..]));
    }
}
