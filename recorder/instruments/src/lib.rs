//! The choice of an instrument: one a process, because the driver lets no two share one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use stallmap_config::PassInstrument;
use stallmap_schema::capture::recording::GAVE_WAY;
use stallmap_schema::word::LossKind;

use crate::accesses::sanitizer;
use crate::samples::pc_sampling;
use stallmap_session::guard::say;
use stallmap_session::session;

/// Set once by [`attach`].
static ATTACHED: OnceLock<Option<PassInstrument>> = OnceLock::new();
static ENDED: AtomicBool = AtomicBool::new(false);

/// Attaches the session's instrument, once. Returns whether it is attached.
pub fn attach() -> bool {
    session::begin_instrument(shut_down);
    let attached = ATTACHED.get_or_init(|| {
        let instrument = session::config()?.instrument;
        let (attached, what) = match instrument {
            PassInstrument::Accesses => (sanitizer::attach(), "memory accesses"),
            PassInstrument::PcSamples => (pc_sampling::attach(), "stall samples"),
            PassInstrument::Timeline => (pc_sampling::attach(), "times"),
            PassInstrument::Blocks => (sanitizer::attach(), "times of blocks"),
            // The replayer measures these itself.
            PassInstrument::Counters | PassInstrument::Native => (Ok(()), "replays"),
        };
        match attached {
            Ok(()) => Some(instrument),
            Err(error) => {
                say(&format!("no {what} are recorded: {error}"));
                session::lose(LossKind::Source, "instrument could not be attached", 1, Some(error));
                None
            }
        }
    });
    attached.is_some()
}

/// Leaves NVIDIA's profiling interface to a profiler of the program's own that is about to start, where the instrument can.
pub fn give_way(profiler: &str) {
    match session::config().map(|config| config.instrument) {
        Some(PassInstrument::PcSamples | PassInstrument::Timeline) => {
            // An instrument that is not attached yet never will be.
            if ATTACHED.get_or_init(|| lose_to(profiler)).is_some() {
                pc_sampling::give_way(profiler);
            }
        }
        Some(PassInstrument::Accesses | PassInstrument::Blocks) => {
            let reason = "the program's own profiler cannot run with the recording of accesses";
            session::lose(LossKind::Source, reason, 1, Some(profiler.to_owned()));
        }
        Some(PassInstrument::Counters | PassInstrument::Native) | None => {}
    }
}

fn lose_to(profiler: &str) -> Option<PassInstrument> {
    session::lose(LossKind::Source, GAVE_WAY, 1, Some(profiler.to_owned()));
    None
}

/// Ends the instrument after it has written everything.
pub fn shut_down() {
    if ENDED.swap(true, Ordering::AcqRel) {
        return;
    }
    match ATTACHED.get().copied().flatten() {
        Some(PassInstrument::Accesses | PassInstrument::Blocks) => sanitizer::shut_down(),
        Some(PassInstrument::PcSamples | PassInstrument::Timeline) => pc_sampling::shut_down(),
        Some(PassInstrument::Counters | PassInstrument::Native) | None => {}
    }
}

pub mod accesses;
pub mod samples;
