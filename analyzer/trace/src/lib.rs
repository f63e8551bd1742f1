//! Recordings of other tools as readers give them: one model for all formats, with the joins that need no format.
//!
//! A source fills the parts that it has data for. Everything else is null or empty, and a loss names it.

mod append;
pub mod join;
pub mod model;
pub mod name;
pub mod nest;
