//! The instruments: one a process, because the driver lets no two share one.
//!
//! This folder is the safe floor over [`stallmap_sys`]: owned types and rows go out, raw pointers stay in.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use stallmap_config::Instrument;
use stallmap_schema::word::LossKind;

use crate::guard::say;
use crate::session;

pub mod bundle;
pub mod call;
pub mod code;
pub mod counters;
pub mod device;
pub mod graphs;
pub mod kernels;
pub mod parameters;
pub mod patch;
pub mod pc_sampling;
pub mod ring;
pub mod sanitizer;
pub mod selection;

mod name;

/// Set once by [`attach`].
static ATTACHED: OnceLock<Option<Instrument>> = OnceLock::new();
/// Set before the instrument is attached, which is when the program starts CUDA.
static BEGUN: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicBool = AtomicBool::new(false);

/// True if the program has started CUDA. Safe in a forked child.
pub fn has_begun() -> bool {
    BEGUN.load(Ordering::Acquire)
}

/// Attaches the session's instrument, once. Returns whether it is attached.
pub fn attach() -> bool {
    BEGUN.store(true, Ordering::Release);
    let attached = ATTACHED.get_or_init(|| {
        let instrument = session::config()?.instrument;
        let (attached, what) = match instrument {
            Instrument::Accesses => (sanitizer::attach(), "memory accesses"),
            Instrument::PcSamples => (pc_sampling::attach(), "stall samples"),
            // The replayer measures these itself.
            Instrument::Counters | Instrument::Native => (Ok(()), "replays"),
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

/// Ends the instrument after all records are collected.
pub fn shut_down() {
    if ENDED.swap(true, Ordering::AcqRel) {
        return;
    }
    match ATTACHED.get().copied().flatten() {
        Some(Instrument::Accesses) => sanitizer::shut_down(),
        Some(Instrument::PcSamples) => pc_sampling::shut_down(),
        Some(Instrument::Counters | Instrument::Native) | None => {}
    }
}
