//! The parts that commands share: arguments, output, exit codes, captures to open, and explained errors.
//!
//! ```text
//! args ──> context (open captures, the user's library, cache) ──> answer (sections as rows) ──> output ──> stdout
//!                                       errors ──> explain (hint, excerpt) ──> exit (code)
//! ```
//!
//! Only [`output`] writes to stdout and stderr.

pub mod absent;
pub mod answer;
pub mod args;
pub mod caution;
pub mod complete;
pub mod context;
pub mod excerpt;
pub mod exit;
pub mod explain;
pub mod library;
pub mod names;
pub mod order;
pub mod output;
pub mod place;
pub mod row;
