//! Recordings of other tools as readers give them: one model for all formats, with the joins that need no format.
//!
//! A source fills the parts that it has data for. Everything else is null or empty, and a loss names it.

pub mod align;
mod append;
pub mod collective;
pub(crate) mod copy;
mod counters;
pub mod forward;
pub mod join;
pub mod loss;
pub mod model;
pub mod name;
pub mod nest;
mod op;
mod rank_ends;
pub mod rank_match;
pub mod stacks;
