//! Copies from CUDA arrays to memory, which the sanitizer API does not report.
#![expect(unsafe_code, reason = "parameters of the driver's functions")]

use std::ffi::c_void;

use stallmap_sys::cuda::{DriverHandle, array_copy_id};
use stallmap_sys::sanitizer::MemcpyData;

use super::AccessInstrument;

/// CU_MEMORYTYPE_DEVICE.
const DEVICE: u64 = 2;
/// CU_MEMORYTYPE_ARRAY.
const ARRAY: u64 = 3;
/// CU_MEMORYTYPE_UNIFIED.
const UNIFIED: u64 = 4;

/// The end of a copy that is memory: bytes of a row, rows and layers, and where they go.
struct ArrayCopy {
    destination: u64,
    extent: [u64; 3],
    pitch: u64,
}

impl ArrayCopy {
    /// From the first words of the parameters of cuMemcpyAtoD.
    const fn linear(words: [u64; 4]) -> Self {
        Self { destination: words[0], extent: [words[3], 1, 1], pitch: 0 }
    }

    /// From a CUDA_MEMCPY2D; `None` where it is another kind of copy.
    fn rows(words: [u64; 16]) -> Option<Self> {
        let [_, _, source, _, _, _, _, x, y, target, _, device, _, pitch, width, height] = words;
        let destination = device + y * pitch + x;
        is_wanted(source, target).then_some(Self { destination, extent: [width, height, 1], pitch })
    }

    /// From a CUDA_MEMCPY3D.
    fn layers(words: [u64; 25]) -> Option<Self> {
        let [_, _, _, _, source, .., x, y, z, _, target, _, device, _, _, pitch, rows, width, height, depth] =
            words;
        let destination = device + (z * rows + y) * pitch + x;
        is_wanted(source, target).then_some(Self { destination, extent: [width, height, depth], pitch })
    }
}

/// True if a copy goes from an array to memory. The types have 32 bits of their words.
fn is_wanted(source: u64, target: u64) -> bool {
    let kind = |word: u64| word & u64::from(u32::MAX);
    kind(source) == ARRAY && [DEVICE, UNIFIED].contains(&kind(target))
}

impl AccessInstrument {
    /// A call of [`array_copy_id`] has succeeded.
    ///
    /// # Safety
    /// `parameters` points to the parameters of the driver function with this callback number, whose call is ending.
    pub(super) unsafe fn array_copied(&self, id: u32, parameters: *const c_void) {
        // SAFETY: the first parameter is a pointer, or of cuMemcpyAtoD an address.
        let first = unsafe { *parameters.cast::<*const c_void>() };
        // SAFETY: by the function's declaration, the parameters are four words or begin with a pointer to the struct.
        let copy = unsafe {
            if array_copy_id::LINEAR.contains(&id) {
                Some(ArrayCopy::linear(*parameters.cast()))
            } else if first.is_null() {
                None
            } else if array_copy_id::ROWS.contains(&id) {
                ArrayCopy::rows(*first.cast())
            } else {
                ArrayCopy::layers(*first.cast())
            }
        };
        let Some(ArrayCopy { destination, extent, pitch }) = copy else { return };
        let stream = if array_copy_id::ASYNC.contains(&id) {
            // SAFETY: the second parameter is the stream.
            unsafe { *parameters.cast::<DriverHandle>().add(1) }
        } else {
            DriverHandle::NULL
        };
        let size_bytes = extent.iter().map(|&part| part.max(1)).product();
        let contexts = [DriverHandle::NULL; 2];
        self.copied(&MemcpyData {
            contexts,
            streams: [stream; 4],
            source: 0,
            destination,
            size_bytes,
            extent,
            pitches: [0, pitch],
            is_async: 0,
            direction: 0,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_from_arrays_to_memory_are_read() {
        let mut rows = [0; 16];
        (rows[2], rows[9], rows[11]) = (ARRAY, DEVICE | 7 << 32, 0x1000);
        (rows[7], rows[8], rows[13], rows[14], rows[15]) = (4, 2, 0x100, 0x80, 3);
        let copy = ArrayCopy::rows(rows).unwrap();
        assert_eq!((copy.destination, copy.extent, copy.pitch), (0x1204, [0x80, 3, 1], 0x100));
        rows[2] = DEVICE;
        assert!(ArrayCopy::rows(rows).is_none());
        let mut layers = [0; 25];
        (layers[4], layers[15], layers[17]) = (ARRAY, UNIFIED, 0x1000);
        (layers[11], layers[12], layers[13]) = (4, 1, 2);
        (layers[20], layers[21], layers[22], layers[23], layers[24]) = (0x10, 5, 8, 3, 2);
        let copy = ArrayCopy::layers(layers).unwrap();
        assert_eq!((copy.destination, copy.extent, copy.pitch), (0x10b4, [8, 3, 2], 0x10));
    }
}
