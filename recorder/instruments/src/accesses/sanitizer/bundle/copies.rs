//! Memory of the device, copied to the host in a callback.
#![expect(unsafe_code, reason = "calls of the sanitizer API")]

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null_mut;

use stallmap_sys::cuda::DriverHandle;
use stallmap_sys::sanitizer::LaunchData;

use super::super::{AccessInstrument, check, own};
use crate::accesses::bundle::PageBytes;
use crate::accesses::bundle::buffer::{self, PageBuffer};
use crate::accesses::bundle::memory::AllocationMap;
use crate::accesses::bundle::symbols::ModuleVariable;

/// A device, and the stream that its memory is copied on: null for that of this thread's context.
#[derive(Clone, Copy)]
pub(super) struct CopySource {
    pub(super) device: i32,
    pub(super) stream: DriverHandle,
}

impl From<&LaunchData> for CopySource {
    fn from(data: &LaunchData) -> Self {
        Self { device: data.device, stream: data.stream_handle }
    }
}

impl AccessInstrument {
    /// Makes room in a buffer.
    pub(super) fn reserve(
        &self,
        buffer: &mut PageBuffer,
        pages: usize,
        context: DriverHandle,
    ) -> Result<(), String> {
        // SAFETY: pinned memory of the context, which is not shared and which is dropped with the context.
        unsafe { buffer.reserve(pages, |bytes| self.allocate_host(context, bytes)) }
    }

    /// Reads pages. Parts that are not memory of the program are zeros.
    pub(super) fn read_pages(
        &self,
        source: CopySource,
        memory: &AllocationMap,
        pages: Range<u64>,
        target: &mut [PageBytes],
    ) -> Result<(), String> {
        let pieces = memory.pieces(pages.clone(), source.device);
        buffer::fill(pages, target, &pieces, &mut |part, address| self.read_bytes(source, address, part))
    }

    /// Reads complete variables.
    pub(super) fn read_variables(
        &self,
        source: CopySource,
        symbols: &[ModuleVariable],
    ) -> Result<Vec<Vec<u8>>, String> {
        let read = |symbol: &ModuleVariable| {
            let mut bytes = vec![0; symbol.bytes];
            self.read_bytes(source, symbol.address, &mut bytes)
                .map_err(|error| format!("{error}: variable `{}`", symbol.name))?;
            Ok(bytes)
        };
        symbols.iter().map(read).collect()
    }

    fn read_bytes(&self, source: CopySource, address: u64, target: &mut [u8]) -> Result<(), String> {
        let (to, from) = (target.as_mut_ptr().cast(), address as *const c_void);
        // SAFETY: the target has that many bytes. The call returns when it is filled, or with an error.
        let code = own(|| unsafe { (self.api.copy_to_host)(to, from, target.len(), source.stream) });
        check(code, "copy memory").map_err(|error| format!("{error} at {address:#x}"))
    }

    /// Writes bytes to memory of the device, of this thread's context. They are there once the context was waited for.
    pub(super) fn write_bytes(&self, address: u64, bytes: &[u8]) -> Result<(), String> {
        let (to, from) = (address as *mut c_void, bytes.as_ptr().cast());
        // SAFETY: the caller has the program's own memory there, and keeps `bytes` until it has waited.
        let code = own(|| unsafe { (self.api.copy_to_device)(to, from, bytes.len(), DriverHandle::NULL) });
        check(code, "copy memory back").map_err(|error| format!("{error} at {address:#x}"))
    }

    fn allocate_host(&self, context: DriverHandle, bytes: usize) -> Result<*mut c_void, String> {
        let mut pointer = null_mut();
        // SAFETY: the context is alive: its launch is being called; `pointer` outlives the call.
        let code = own(|| unsafe { (self.api.alloc_host)(context, &raw mut pointer, bytes) });
        check(code, "allocate host memory")?;
        Ok(pointer)
    }
}
