//! Captures that cannot be read: named once, counted, and left out of every answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Called with the name of a capture and the reason.
type SkipReport = dyn Fn(&str, &str) + Send + Sync;

/// The captures that were skipped so far.
pub struct SkippedCaptures {
    reasons: Mutex<BTreeMap<String, String>>,
    say: Box<SkipReport>,
}

impl SkippedCaptures {
    /// None so far.
    pub fn new(say: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        Self { reasons: Mutex::default(), say: Box::new(say) }
    }

    /// Notes that a capture cannot be read.
    pub fn add(&self, name: &str, reason: &str) {
        let is_new = self.reasons().insert(name.to_owned(), reason.to_owned()).is_none();
        if is_new {
            (self.say)(name, reason);
        }
    }

    /// The reason, if a capture was skipped.
    pub fn reason(&self, name: &str) -> Option<String> {
        self.reasons().get(name).cloned()
    }

    /// All names, with the reasons.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.reasons().clone()
    }

    /// Number of captures.
    pub fn count(&self) -> usize {
        self.reasons().len()
    }

    /// No holder can panic between two states, so a poisoned lock is sound.
    fn reasons(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SkippedCaptures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reasons().fmt(f)
    }
}
