//! The threads that finalize a recording.

use std::thread::available_parallelism;

use rayon::ThreadPoolBuilder;

/// Lets the calling thread share its work with others: one for each core, or fewer where the system starts no more.
/// The library's own pool panics there, at its first use.
pub(crate) fn share() {
    let mut threads = available_parallelism().map_or(1, usize::from);
    while threads > 0 {
        match ThreadPoolBuilder::new().num_threads(threads).use_current_thread().build() {
            // The calling thread belongs to it as long as it lives.
            Ok(pool) => return std::mem::forget(pool),
            // One thread alone starts no other: it can only belong to a pool already.
            Err(_) => threads /= 2,
        }
    }
}
