//! Memory that CUPTI fills and reads: configurations, counter data.

/// Bytes at an address that is a multiple of eight, as CUPTI's images want it.
#[derive(Clone, Debug, Default)]
pub(super) struct AlignedImage {
    words: Vec<u64>,
    bytes: usize,
}

impl AlignedImage {
    /// An image of zeros.
    pub(super) fn new(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(8)], bytes }
    }

    /// Its bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Start of the image.
    pub(super) fn pointer(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    /// Start of the image, for functions that only read.
    pub(super) fn address(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }
}
