//! Buffers of activity records, used again: new memory would cost the program page faults in its launch calls.
#![expect(unsafe_code, reason = "CUPTI fills memory that it is given by address")]

use std::alloc::{Layout, alloc};
use std::sync::{Mutex, PoisonError};

/// Bytes of a buffer: some ten thousand records.
pub(super) const BYTES: usize = 1 << 21;

/// Buffers that CUPTI has given back, by address.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// A buffer, or null without memory. It is aligned to 8 bytes, as records are.
pub(super) fn take() -> *mut u8 {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    if let Some(address) = free {
        return std::ptr::with_exposed_provenance_mut(address);
    }
    match Layout::from_size_align(BYTES, 8) {
        // SAFETY: the size is not zero.
        Ok(layout) => unsafe { alloc(layout) },
        Err(_) => std::ptr::null_mut(),
    }
}

/// Keeps a buffer for later. There are as many as CUPTI ever held at once.
pub(super) fn give_back(buffer: *mut u8) {
    if !buffer.is_null() {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(buffer.expose_provenance());
    }
}
