//! Memory of the device, copied to the host in a callback.
#![expect(unsafe_code, reason = "calls of the sanitizer API")]

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null_mut;

use stallmap_sys::cuda::Handle;
use stallmap_sys::sanitizer::LaunchData;

use super::super::{Instrument, check, own};
use crate::bundle::Page;
use crate::bundle::buffer::{self, Buffer};
use crate::bundle::memory::Map;
use crate::bundle::symbols::Symbol;

impl Instrument {
    /// Makes room in a buffer.
    pub(super) fn reserve(&self, buffer: &mut Buffer, pages: usize, context: Handle) -> Result<(), String> {
        // SAFETY: pinned memory of the context, which is not shared and which is dropped with the context.
        unsafe { buffer.reserve(pages, |bytes| self.allocate_host(context, bytes)) }
    }

    /// Reads pages. Parts that are not memory of the program are zeros.
    pub(super) fn read_pages(
        &self,
        data: &LaunchData,
        memory: &Map,
        pages: Range<u64>,
        target: &mut [Page],
    ) -> Result<(), String> {
        let pieces = memory.pieces(pages.clone(), data.device);
        buffer::fill(pages, target, &pieces, &mut |part, address| self.read_bytes(data, address, part))
    }

    /// Reads complete variables.
    pub(super) fn read_variables(
        &self,
        data: &LaunchData,
        symbols: &[Symbol],
    ) -> Result<Vec<Vec<u8>>, String> {
        let read = |symbol: &Symbol| {
            let mut bytes = vec![0; symbol.bytes];
            self.read_bytes(data, symbol.address, &mut bytes)
                .map_err(|error| format!("{error}: variable `{}`", symbol.name))?;
            Ok(bytes)
        };
        symbols.iter().map(read).collect()
    }

    fn read_bytes(&self, data: &LaunchData, address: u64, target: &mut [u8]) -> Result<(), String> {
        let (to, from) = (target.as_mut_ptr().cast(), address as *const c_void);
        // SAFETY: the target has that many bytes. The call returns when it is filled, or with an error.
        let code = own(|| unsafe { (self.api.copy_to_host)(to, from, target.len(), data.stream_handle) });
        check(code, "copy memory").map_err(|error| format!("{error} at {address:#x}"))
    }

    fn allocate_host(&self, context: Handle, bytes: usize) -> Result<*mut c_void, String> {
        let mut pointer = null_mut();
        // SAFETY: the context is alive: its launch is being called; `pointer` outlives the call.
        let code = own(|| unsafe { (self.api.alloc_host)(context, &raw mut pointer, bytes) });
        check(code, "allocate host memory")?;
        Ok(pointer)
    }
}
