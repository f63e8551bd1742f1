//! The life of a statement's views: planned when named, computed once when read twice, put in where they stand.
//!
//! ```text
//! name ── lazy (plan on first use) ──> leaf ── materialize (keep rows read twice) ── inline (plan or rows) ──> plan
//! ```

pub(crate) mod empty;
pub(crate) mod inline;
pub(crate) mod lazy;
pub(crate) mod materialize;
pub(crate) mod reasons;
pub(crate) mod small;
pub(crate) mod together;
