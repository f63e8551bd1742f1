//! Arguments of a launch call, for every launch function of the driver.
#![expect(unsafe_code, reason = "reads the parameters of the driver's functions")]

use std::ffi::c_void;
use std::ptr::null;

use stallmap_sys::cuda::{
    DriverHandle, LAUNCH_ATTRIBUTE_BYTES, LAUNCH_ATTRIBUTE_COOPERATIVE, LaunchKernel, LaunchKernelEx,
    launch_id,
};

/// A launch call.
#[derive(Clone, Copy, Debug)]
pub struct LaunchCall {
    /// The function or kernel.
    pub function: DriverHandle,
    /// Grid x, y, z, block x, y, z.
    pub shape: [u32; 6],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The stream.
    pub stream: DriverHandle,
    /// Pointers to the kernel's parameters, or null.
    pub pointers: *const *const c_void,
    /// cuLaunchKernel's `extra`, or null.
    pub extra: *const *const c_void,
    /// cuLaunchKernelEx's attributes, or null, and how many there are.
    pub attributes: (*const [u8; LAUNCH_ATTRIBUTE_BYTES], u32),
    /// True if the called function makes the launch cooperative. An attribute may do it too.
    pub is_cooperative: bool,
}

/// Attributes that are read of a launch.
const MAX_ATTRIBUTES: u32 = 32;

impl LaunchCall {
    /// A call of no function, with one thread and no parameters.
    pub const fn of_one_block() -> Self {
        Self {
            function: DriverHandle::NULL,
            shape: [1; 6],
            shared_bytes: 0,
            stream: DriverHandle::NULL,
            pointers: null(),
            extra: null(),
            attributes: (null(), 0),
            is_cooperative: false,
        }
    }

    /// The launch's attributes, 72 bytes each.
    ///
    /// # Safety
    /// The launch call is running.
    pub unsafe fn attributes(&self) -> Vec<u8> {
        let (attributes, count) = self.attributes;
        if attributes.is_null() {
            return Vec::new();
        }
        // SAFETY: the driver's own caller passed so many attributes, which live while the call runs.
        let attributes =
            unsafe { std::slice::from_raw_parts(attributes, count.min(MAX_ATTRIBUTES) as usize) };
        attributes.as_flattened().to_vec()
    }
}

/// True if attributes make a launch cooperative.
pub fn are_cooperative(attributes: &[u8]) -> bool {
    attributes.as_chunks::<LAUNCH_ATTRIBUTE_BYTES>().0.iter().any(|attribute| {
        let word =
            |start: usize| attribute.get(start..)?.first_chunk().map(|bytes| i32::from_le_bytes(*bytes));
        word(0) == Some(LAUNCH_ATTRIBUTE_COOPERATIVE) && word(8).is_some_and(|value| value != 0)
    })
}

/// Reads the parameters of a launch function; `None` where they are not there.
///
/// # Safety
/// `parameters`, where not null, points to the parameters of the launch function with this callback id.
pub unsafe fn read(id: u32, parameters: *const c_void) -> Option<LaunchCall> {
    if parameters.is_null() {
        return None;
    }
    if launch_id::KERNEL_EX.contains(&id) {
        // SAFETY: by this function's contract.
        let LaunchKernelEx { config, function, parameters: pointers, extra } =
            unsafe { parameters.cast::<LaunchKernelEx>().read() };
        // SAFETY: the driver's own caller passed the configuration, which lives while the call runs.
        let config = unsafe { config.as_ref() }?;
        let (shape, shared_bytes, stream) = (config.shape, config.shared_bytes, config.stream);
        let attributes = (config.attributes, config.attribute_count);
        let is_cooperative = false;
        return Some(LaunchCall {
            function,
            shape,
            shared_bytes,
            stream,
            pointers,
            extra,
            attributes,
            is_cooperative,
        });
    }
    let call = parameters.cast::<LaunchKernel>();
    let has_extra = !launch_id::COOPERATIVE.contains(&id);
    // SAFETY: by this function's contract. A cooperative launch has every field but `extra`, which is not read then.
    unsafe {
        Some(LaunchCall {
            function: (&raw const (*call).function).read(),
            shape: (&raw const (*call).shape).read(),
            shared_bytes: (&raw const (*call).shared_bytes).read(),
            stream: (&raw const (*call).stream).read(),
            pointers: (&raw const (*call).parameters).read(),
            extra: if has_extra { (&raw const (*call).extra).read() } else { null() },
            attributes: (null(), 0),
            is_cooperative: !has_extra,
        })
    }
}

/// Gives a launch call another function or kernel.
///
/// # Safety
/// As [`read`], and the call has not reached the driver. The function has the same parameters.
pub unsafe fn replace_function(id: u32, parameters: *const c_void, function: DriverHandle) {
    if parameters.is_null() {
        return;
    }
    // SAFETY: by this function's contract. The driver reads the parameters behind its callbacks.
    unsafe {
        if launch_id::KERNEL_EX.contains(&id) {
            let call = parameters.cast_mut().cast::<LaunchKernelEx>();
            (&raw mut (*call).function).write(function);
        } else {
            let call = parameters.cast_mut().cast::<LaunchKernel>();
            (&raw mut (*call).function).write(function);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_makes_a_launch_cooperative() {
        let attribute = |id: i32, value: i32| {
            let mut bytes = [0; LAUNCH_ATTRIBUTE_BYTES];
            bytes[..4].copy_from_slice(&id.to_le_bytes());
            bytes[8..12].copy_from_slice(&value.to_le_bytes());
            bytes
        };
        let lists = [[attribute(4, 2), attribute(2, 1)], [attribute(4, 2), attribute(2, 0)]];
        let call = |list: &[[u8; LAUNCH_ATTRIBUTE_BYTES]; 2]| LaunchCall {
            attributes: (list.as_ptr(), 2),
            ..LaunchCall::of_one_block()
        };
        // SAFETY: the lists live longer than the calls.
        let read = lists.each_ref().map(|list| are_cooperative(&unsafe { call(list).attributes() }));
        assert_eq!(read, [true, false]);
    }
}
