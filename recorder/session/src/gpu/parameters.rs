//! The parameter bytes of a launch.
#![expect(unsafe_code, reason = "reads what the launch call's pointers point to")]

use std::ffi::c_void;

use stallmap_schema::word::LossKind;
use stallmap_sys::cuda::{DriverHandle, PARAM_BUFFER_POINTER, PARAM_BUFFER_SIZE};

use super::device;
use crate::session;

/// Most bytes of parameters that a launch can have.
const LIMIT: usize = 64 << 10;

/// Offset and size of each parameter of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParameterLayout {
    /// Byte offsets.
    pub offsets: Vec<u32>,
    /// Bytes.
    pub sizes: Vec<u32>,
}

/// Parameters as the kernel finds them.
#[derive(Clone, Debug, Default)]
pub struct KernelParameters {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// Layout of the parameters. Empty for an opaque buffer.
    pub layout: ParameterLayout,
}

/// Asks the driver where the parameters of a function lie. A handle may be a function's or a kernel's.
pub fn layout(function: DriverHandle) -> ParameterLayout {
    let Some(cuda) = device::driver() else { return ParameterLayout::default() };
    let by_function = read_layout(|index, offset, size| {
        // SAFETY: the handle comes from the launch call itself. The driver answers with an error if it is a kernel's.
        unsafe { (cuda.function_get_parameter)(function, index, offset, size) }
    });
    by_function
        .or_else(|| {
            read_layout(|index, offset, size| {
                // SAFETY: as above.
                unsafe { (cuda.kernel_get_parameter)(function, index, offset, size) }
            })
        })
        .unwrap_or_default()
}

fn read_layout(mut ask: impl FnMut(usize, *mut usize, *mut usize) -> i32) -> Option<ParameterLayout> {
    /// CUDA_ERROR_INVALID_VALUE: there is no parameter of this index.
    const PAST_THE_LAST: i32 = 1;
    let mut layout = ParameterLayout::default();
    for index in 0..LIMIT {
        let (mut offset, mut size) = (0, 0);
        match ask(index, &raw mut offset, &raw mut size) {
            0 => {
                layout.offsets.push(u32::try_from(offset).ok()?);
                layout.sizes.push(u32::try_from(size).ok()?);
            }
            PAST_THE_LAST => return Some(layout),
            _ => return None,
        }
    }
    None
}

/// Copies a launch's parameters; `pointers` and `extra` are the launch call's own.
///
/// # Safety
/// `pointers`, where not null, points to one valid pointer for each parameter of `layout`, and `extra`, where not null,
/// to the list that cuLaunchKernel documents: both hold while the launch call runs.
pub unsafe fn read(
    pointers: *const *const c_void,
    extra: *const *const c_void,
    layout: &ParameterLayout,
) -> KernelParameters {
    if !pointers.is_null() {
        // SAFETY: by this function's contract.
        return unsafe { read_each(pointers, layout) };
    }
    // SAFETY: by this function's contract.
    let bytes = unsafe { read_buffer(extra) };
    KernelParameters { bytes, layout: ParameterLayout::default() }
}

/// # Safety
/// As [`read`].
unsafe fn read_each(pointers: *const *const c_void, layout: &ParameterLayout) -> KernelParameters {
    let ends = layout.offsets.iter().zip(&layout.sizes).map(|(&offset, &size)| (offset + size) as usize);
    let total = ends.max().unwrap_or(0);
    if total > LIMIT {
        session::lose(LossKind::Parameter, "parameters of more than 64 KiB", 1, None);
        return KernelParameters::default();
    }
    let mut bytes = vec![0; total];
    for (index, (&offset, &size)) in layout.offsets.iter().zip(&layout.sizes).enumerate() {
        // SAFETY: there is a pointer for each parameter.
        let source = unsafe { *pointers.add(index) };
        if !source.is_null() {
            // SAFETY: it points to the parameter's bytes. The target range lies in `bytes` by its length above.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    source.cast::<u8>(),
                    bytes.as_mut_ptr().add(offset as usize),
                    size as usize,
                );
            }
        }
    }
    KernelParameters { bytes, layout: layout.clone() }
}

/// # Safety
/// As [`read`].
unsafe fn read_buffer(extra: *const *const c_void) -> Vec<u8> {
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), 0_usize);
    for pair in 0..8 {
        if extra.is_null() {
            break;
        }
        // SAFETY: the list holds key and value pairs up to a null key, which is not reached before here.
        let key = unsafe { *extra.add(2 * pair) } as usize;
        if key == 0 {
            break;
        }
        // SAFETY: a key that is not null has a value.
        let value = unsafe { *extra.add(2 * pair + 1) };
        match key {
            PARAM_BUFFER_POINTER => buffer = value.cast(),
            // SAFETY: the value of this key points to a size.
            PARAM_BUFFER_SIZE => size = unsafe { *value.cast::<usize>() },
            _ => {}
        }
    }
    if buffer.is_null() || size > LIMIT {
        return Vec::new();
    }
    // SAFETY: the buffer has `size` bytes while the launch call runs.
    unsafe { std::slice::from_raw_parts(buffer, size) }.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_land_at_their_offsets() {
        let (a, b) = (7_u32.to_le_bytes(), 9_u64.to_le_bytes());
        let pointers = [a.as_ptr().cast::<c_void>(), b.as_ptr().cast()];
        let layout = ParameterLayout { offsets: vec![0, 8], sizes: vec![4, 8] };
        // SAFETY: two pointers to as many bytes as the layout says.
        let read = unsafe { read(pointers.as_ptr(), std::ptr::null(), &layout) };
        assert_eq!(read.bytes, [7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_buffer_is_copied_whole() {
        let (buffer, size) = ([1_u8, 2, 3], 3_usize);
        let extra: [*const c_void; 5] = [
            PARAM_BUFFER_POINTER as _,
            buffer.as_ptr().cast(),
            PARAM_BUFFER_SIZE as _,
            (&raw const size).cast(),
            std::ptr::null(),
        ];
        // SAFETY: the list that cuLaunchKernel documents.
        let read = unsafe { read(std::ptr::null(), extra.as_ptr(), &ParameterLayout::default()) };
        assert_eq!(read.bytes, buffer);
        assert!(read.layout.offsets.is_empty());
    }
}
