//! Reason why a launch is not a bundle.

use std::fmt;

/// A reason with an example of its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleRefusal {
    /// The reason, the same for all launches that share it.
    pub reason: &'static str,
    /// Details. Empty where the reason is complete.
    pub detail: String,
}

impl BundleRefusal {
    /// A reason that says all.
    pub fn for_reason(reason: &'static str) -> Self {
        Self { reason, detail: String::new() }
    }

    /// A reason with an example.
    pub fn with(reason: &'static str, detail: impl fmt::Display) -> Self {
        Self { reason, detail: detail.to_string() }
    }
}

/// Reasons that more than one place gives.
pub mod reason {
    /// Contents may take no more bytes.
    pub const BUDGET: &str = "budget is used up";
    /// The launch wrote where nothing was saved.
    pub const OUTSIDE: &str = "wrote memory that its parameters do not point to";
    /// Memory could not be copied.
    pub const UNREADABLE: &str = "memory could not be read";
}
