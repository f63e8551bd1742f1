//! Replay of a captured launch: the replayer announces it, and the instruments record accordingly.
//!
//! In a session with [`stallmap_config::Config::replays`], launches without an announcement are the replayer's own and
//! leave no trace. An announced one becomes a row of `launch_run` with the announced `kernel_id`.

use std::sync::atomic::{AtomicU64, Ordering};

use stallmap_schema::id::KernelId;

use crate::session;

/// The announced launch; [`NONE`] without one.
static CURRENT: AtomicU64 = AtomicU64::new(NONE);
/// No kernel_id: they count from 0.
const NONE: u64 = u64::MAX;

/// Sets the launch that is being replayed from now on.
pub fn set(kernel_id: Option<KernelId>) {
    CURRENT.store(kernel_id.map_or(NONE, |kernel_id| kernel_id.0), Ordering::Release);
}

/// The launch that is being replayed.
pub fn current() -> Option<KernelId> {
    let current = CURRENT.load(Ordering::Acquire);
    (current != NONE).then_some(KernelId(current))
}

/// True if this process replays launches.
pub fn is_session() -> bool {
    session::config().is_some_and(|config| config.replays)
}

/// True if the current work is the replayer's own and is not recorded.
pub fn is_silent() -> bool {
    is_session() && current().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_launch_can_be_announced() {
        set(Some(KernelId(0)));
        assert_eq!(current(), Some(KernelId(0)));
        set(None);
        assert_eq!(current(), None);
    }
}
