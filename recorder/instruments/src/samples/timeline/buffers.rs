//! Buffers of activity records, used again: new memory would cost the program page faults in its launch calls.
//!
//! CUPTI gives full buffers back only, and a program that is killed loses the rest. So a buffer takes about as many records
//! as the program makes in a fifth of a second.
#![expect(unsafe_code, reason = "CUPTI fills memory that it is given by address")]

use std::alloc::{Layout, alloc};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of a buffer: some ten thousand records.
const BYTES: usize = 1 << 21;
/// Least bytes of it that CUPTI uses: some hundred records.
const MIN_BYTES: usize = 1 << 15;
/// Time between two full buffers, nanoseconds: with less, buffers grow, with more, they shrink.
const MIN_FILL_NS: i64 = 50_000_000;
const MAX_FILL_NS: i64 = 200_000_000;

/// Bytes of the next buffer that CUPTI uses.
static USED_BYTES: AtomicUsize = AtomicUsize::new(MIN_BYTES);
/// Time of the last full buffer.
static FILLED_NS: AtomicI64 = AtomicI64::new(0);

/// Buffers that CUPTI has given back, by address.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Bytes that CUPTI is to use of a buffer.
pub(super) fn used_bytes() -> usize {
    USED_BYTES.load(Ordering::Relaxed)
}

/// A buffer is full: the next ones are larger or smaller. Two threads at once only find a worse size.
pub(super) fn filled(now_ns: i64) {
    let took_ns = now_ns.saturating_sub(FILLED_NS.swap(now_ns, Ordering::Relaxed));
    USED_BYTES.store(next_bytes(used_bytes(), took_ns), Ordering::Relaxed);
}

fn next_bytes(bytes: usize, took_ns: i64) -> usize {
    if took_ns < MIN_FILL_NS {
        (bytes * 2).min(BYTES)
    } else if took_ns > MAX_FILL_NS {
        (bytes / 2).max(MIN_BYTES)
    } else {
        bytes
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_follow_the_rate_of_records() {
        let after =
            |times: &[i64]| times.iter().fold(MIN_BYTES, |bytes, &took_ns| next_bytes(bytes, took_ns));
        assert_eq!(after(&[1_000_000; 40]), BYTES);
        assert_eq!(after(&[1_000_000, 1_000_000, 100_000_000]), 4 * MIN_BYTES);
        assert_eq!(after(&[1_000_000, 1_000_000, 900_000_000]), 2 * MIN_BYTES);
        assert_eq!(after(&[900_000_000; 3]), MIN_BYTES);
    }
}
