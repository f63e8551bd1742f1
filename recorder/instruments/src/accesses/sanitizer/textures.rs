//! Textures and surfaces: the memory behind the handles that the program makes.
#![expect(unsafe_code, reason = "parameters and calls of the driver's functions")]

use std::ffi::c_void;

use stallmap_schema::capture::recording::{AllocationEvent, TextureEvent};
use stallmap_schema::id::{Address, AllocationId};
use stallmap_session::gpu::device;
use stallmap_session::{context, replayed, session};
use stallmap_sys::cuda::{ArrayDescriptor, DriverHandle};

use super::{AccessInstrument, HandleKey, SanitizerState, own};

/// CU_RESOURCE_TYPE_ARRAY.
const ARRAY: u64 = 0;
/// CU_RESOURCE_TYPE_MIPMAPPED_ARRAY.
const LEVELS: u64 = 1;
/// CU_RESOURCE_TYPE_LINEAR.
const LINEAR: u64 = 2;
/// CU_RESOURCE_TYPE_PITCH2D.
const PITCHED: u64 = 3;

/// First address of the CUDA arrays' allocations: arrays have no addresses, and no memory lies there.
const ARRAY_ADDRESSES: u64 = 1 << 62;
const ARRAY_ALIGNMENT: u64 = 512;

/// A CUDA array that was recorded as an allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedArray {
    allocation_id: AllocationId,
    address: u64,
    shape: ArrayDescriptor,
}

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
                    .saturating_add(third.saturating_mul(texel_bytes)),
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

    /// The texture of a CUDA array.
    fn array_texture(&self, handle: u64, has_levels: bool) -> Option<TextureEvent> {
        let RecordedArray { address, shape, .. } = self.array(usize::try_from(handle).ok()?, has_levels)?;
        let [width, height, depth] = shape.extent.map(|part| part as u64);
        Some(TextureEvent {
            address: Address(address),
            size_bytes: array_bytes(shape),
            width,
            height,
            depth,
            format: shape.format,
            channel_count: shape.channel_count,
            ..TextureEvent::default()
        })
    }

    /// A call that makes a CUDA array, or one of several levels, has succeeded.
    ///
    /// # Safety
    /// `parameters` points to the parameters of that function, whose call is ending.
    pub(super) unsafe fn array_made(&self, has_levels: bool, parameters: *const c_void) {
        // SAFETY: by the functions' declarations, the first parameter is a pointer to the handle.
        let handle = unsafe { (*parameters.cast::<*const HandleKey>()).as_ref().copied() };
        if let Some(handle) = handle.filter(|_| !replayed::is_session() && !self.is_timing()) {
            self.array_ends(handle);
            self.array(handle, has_levels);
        }
    }

    /// The program destroys a CUDA array.
    pub(super) fn array_ends(&self, handle: HandleKey) {
        if let Some(RecordedArray { allocation_id, .. }) = self.lock().arrays.remove(&handle) {
            session::emit(AllocationEvent {
                allocation_id,
                is_free: true,
                time_ns: session::now_ns(),
                ordinal: session::next_ordinal(),
                ..AllocationEvent::default()
            });
        }
    }

    /// A CUDA array that is there, recorded as an allocation when it is first seen.
    fn array(&self, handle: HandleKey, has_levels: bool) -> Option<RecordedArray> {
        if let Some(array) = self.lock().arrays.get(&handle) {
            return Some(*array);
        }
        let shape = shape_of(handle, has_levels)?;
        let mut state = self.lock();
        let array = state.place_array(shape);
        state.arrays.insert(handle, array);
        drop(state);
        let context = context::current();
        session::emit(AllocationEvent {
            allocation_id: array.allocation_id,
            is_free: false,
            device_id: own(device::current).unwrap_or(-1),
            address: Address(array.address),
            size_bytes: array_bytes(shape),
            time_ns: session::now_ns(),
            ordinal: session::next_ordinal(),
            flags: 0,
            op_id: context.and_then(|context| context.op_id),
            pystates_hash: context.and_then(|context| context.pystates_hash),
            is_mapped: Some(false),
        });
        Some(array)
    }
}

impl SanitizerState {
    /// The next allocation, at addresses that no other has.
    fn place_array(&mut self, shape: ArrayDescriptor) -> RecordedArray {
        self.next_allocation += 1;
        let address = ARRAY_ADDRESSES + self.array_bytes;
        self.array_bytes += array_bytes(shape).next_multiple_of(ARRAY_ALIGNMENT);
        RecordedArray { allocation_id: AllocationId(self.next_allocation), address, shape }
    }
}

/// The shape of a CUDA array, or of its first level.
fn shape_of(handle: HandleKey, has_levels: bool) -> Option<ArrayDescriptor> {
    let driver = device::driver()?;
    let mut array = DriverHandle::of_key(handle);
    let mut shape = ArrayDescriptor::default();
    let is_known = own(|| {
        // SAFETY: the program has this array, and all outlive the calls.
        unsafe {
            (!has_levels || (driver.array_of_level)(&raw mut array, array, 0) == 0)
                && (driver.array_shape)(&raw mut shape, array) == 0
        }
    });
    is_known.then_some(shape)
}

/// Bytes of an array, without levels after the first.
fn array_bytes(shape: ArrayDescriptor) -> u64 {
    let texels: u64 = shape.extent.iter().map(|&part| part.max(1) as u64).product();
    texels * texel_bytes(shape.format, shape.channel_count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_lie_at_addresses_of_their_own() {
        let mut state = SanitizerState::default();
        let shape = ArrayDescriptor {
            extent: [100, 0, 3],
            format: 0x20,
            channel_count: 2,
            ..ArrayDescriptor::default()
        };
        let places =
            [(); 2].map(|()| state.place_array(shape)).map(|array| (array.allocation_id.0, array.address));
        assert_eq!(array_bytes(shape), 2400);
        assert_eq!(places, [(1, 1 << 62), (2, (1 << 62) + 2560)]);
    }

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
