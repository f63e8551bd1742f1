//! The threads of a server: some that compute, and one for the network.

use stallmap_console::context::{STACK_BYTES, no_threads};
use stallmap_console::exit::Outcome;
use tokio::runtime::{Builder, Runtime};

/// Threads for queries. A query that computes for long occupies one for each core, and others go on.
const THREADS_PER_CORE: usize = 4;

/// Threads for queries. A query that computes for long occupies them. The network has its own.
///
/// # Errors
/// Fails if the system has no threads.
pub(crate) fn query_threads() -> Outcome<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .enable_all()
        .worker_threads(cores * THREADS_PER_CORE)
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(no_threads)
}

/// The thread for the network.
///
/// # Errors
/// Fails if the system has no threads.
pub(crate) fn network_thread() -> Outcome<Runtime> {
    Builder::new_current_thread().enable_all().build().map_err(no_threads)
}
