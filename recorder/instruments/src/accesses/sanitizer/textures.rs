//! Textures and surfaces: the memory behind the handles that the program makes.
#![expect(unsafe_code, reason = "parameters and calls of the driver's functions")]

use std::ffi::c_void;

use stallmap_schema::capture::recording::{AllocationEvent, TextureEvent};
use stallmap_schema::id::{Address, AllocationId};
use stallmap_session::gpu::device;
use stallmap_session::{context, replayed, session};
use stallmap_sys::cuda::{ArrayShape, DriverHandle};

use super::{AccessInstrument, own};

/// CU_RESOURCE_TYPE_ARRAY.
const ARRAY: u64 = 0;
/// CU_RESOURCE_TYPE_MIPMAPPED_ARRAY.
const LEVELS: u64 = 1;
/// CU_RESOURCE_TYPE_LINEAR.
const LINEAR: u64 = 2;
/// CU_RESOURCE_TYPE_PITCH2D.
const PITCHED: u64 = 3;

/// A CUDA_RESOURCE_DESC up to its last field that is looked at.
type ResourceWords = [u64; 6];

/// The memory of a texture or surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextureMemory {
    /// A CUDA array, or one of several levels.
    Array { handle: u64, has_levels: bool },
    /// Memory with an address.
    Plain {
        address: u64,
        extent: [u64; 2],
        pitch_bytes: Option<u64>,
        size_bytes: u64,
        format: u32,
        channel_count: u32,
    },
}

impl TextureMemory {
    fn from_words([kind, first, channel, third, fourth, fifth]: ResourceWords) -> Option<Self> {
        let (format, channel_count) = (low(channel), low(channel >> 32));
        let texel_bytes = texel_bytes(format, channel_count);
        match kind & u64::from(u32::MAX) {
            kind @ (ARRAY | LEVELS) => Some(Self::Array { handle: first, has_levels: kind == LEVELS }),
            LINEAR => Some(Self::Plain {
                address: first,
                extent: [third.checked_div(texel_bytes).unwrap_or(third), 0],
                pitch_bytes: None,
                size_bytes: third,
                format,
                channel_count,
            }),
            PITCHED => Some(Self::Plain {
                address: first,
                extent: [third, fourth],
                pitch_bytes: Some(fifth),
                size_bytes: fourth
                    .saturating_sub(1)
                    .saturating_mul(fifth)
                    .saturating_add(third * texel_bytes),
                format,
                channel_count,
            }),
            _ => None,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half of a word")]
const fn low(word: u64) -> u32 {
    word as u32
}

/// Bytes of a texel, by CUarray_format: a number of 8, 16 or 32 bits. 1 for the formats of blocks and planes.
fn texel_bytes(format: u32, channel_count: u32) -> u64 {
    let channel = match format {
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => 1,
    };
    channel * u64::from(channel_count.max(1))
}

impl AccessInstrument {
    /// A call of cuTexObjectCreate or cuSurfObjectCreate has succeeded.
    ///
    /// # Safety
    /// `parameters` points to the parameters of that function, whose call is ending.
    pub(super) unsafe fn texture_made(&self, is_surface: bool, parameters: *const c_void) {
        if replayed::is_session() || self.is_timing() {
            return;
        }
        // SAFETY: by the functions' declarations, the first parameters are pointers to the handle and to the struct.
        let (handle, words) = unsafe {
            let (handle, resource) = *parameters.cast::<(*const u64, *const ResourceWords)>();
            if handle.is_null() || resource.is_null() {
                return;
            }
            (*handle, *resource)
        };
        let Some(memory) = TextureMemory::from_words(words) else { return };
        let event = match memory {
            TextureMemory::Array { handle: array, has_levels } => self.array_texture(array, has_levels),
            TextureMemory::Plain {
                address,
                extent: [width, height],
                pitch_bytes,
                size_bytes,
                format,
                channel_count,
            } => Some(TextureEvent {
                address: Address(address),
                size_bytes,
                width,
                height,
                pitch_bytes,
                format,
                channel_count,
                ..TextureEvent::default()
            }),
        };
        if let Some(event) = event {
            session::emit(TextureEvent { handle, is_surface, ordinal: session::next_ordinal(), ..event });
        }
    }

    /// The texture of a CUDA array, whose memory is recorded with it.
    fn array_texture(&self, handle: u64, has_levels: bool) -> Option<TextureEvent> {
        let driver = device::driver()?;
        let mut array = DriverHandle::of_key(usize::try_from(handle).ok()?);
        let mut shape = ArrayShape::default();
        let is_known = own(|| {
            // SAFETY: the program made a texture of this array, and both outlive the calls.
            unsafe {
                (!has_levels || (driver.array_of_level)(&raw mut array, array, 0) == 0)
                    && (driver.array_shape)(&raw mut shape, array) == 0
            }
        });
        if !is_known {
            return None;
        }
        let [width, height, depth] = shape.extent.map(|part| part as u64);
        let size_bytes =
            width * height.max(1) * depth.max(1) * texel_bytes(shape.format, shape.channel_count);
        self.array_found(handle, size_bytes);
        Some(TextureEvent {
            address: Address(handle),
            size_bytes,
            width,
            height,
            depth,
            format: shape.format,
            channel_count: shape.channel_count,
            ..TextureEvent::default()
        })
    }

    /// Records a CUDA array as an allocation where its first texture is made. When it was allocated is not known.
    fn array_found(&self, handle: u64, size_bytes: u64) {
        let mut state = self.lock();
        let Ok(key) = usize::try_from(handle) else { return };
        if state.arrays.insert(key, size_bytes) == Some(size_bytes) {
            return;
        }
        state.next_allocation += 1;
        let context = context::current();
        session::emit(AllocationEvent {
            allocation_id: AllocationId(state.next_allocation),
            is_free: false,
            device_id: device::current().unwrap_or(-1),
            address: Address(handle),
            size_bytes,
            time_ns: session::now_ns(),
            ordinal: session::next_ordinal(),
            flags: 0,
            op_id: context.and_then(|context| context.op_id),
            pystates_hash: context.and_then(|context| context.pystates_hash),
            is_mapped: Some(false),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_textures_is_read() {
        let float4 = 0x20 | 4 << 32;
        let plain = |address, extent, pitch_bytes, size_bytes| {
            Some(TextureMemory::Plain {
                address,
                extent,
                pitch_bytes,
                size_bytes,
                format: 0x20,
                channel_count: 4,
            })
        };
        assert_eq!(
            TextureMemory::from_words([LINEAR, 0x1000, float4, 640, 9, 9]),
            plain(0x1000, [40, 0], None, 640)
        );
        let pitched = TextureMemory::from_words([PITCHED | 7 << 32, 0x1000, float4, 10, 3, 512]);
        assert_eq!(pitched, plain(0x1000, [10, 3], Some(512), 2 * 512 + 160));
        let array = |has_levels| Some(TextureMemory::Array { handle: 0x77, has_levels });
        assert_eq!(TextureMemory::from_words([ARRAY, 0x77, 0, 0, 0, 0]), array(false));
        assert_eq!(TextureMemory::from_words([LEVELS, 0x77, 0, 0, 0, 0]), array(true));
        assert_eq!(TextureMemory::from_words([4, 0x77, 0, 0, 0, 0]), None);
    }
}
