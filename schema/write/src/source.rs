//! The text of source lines: which lines a capture needs, and where their files are.

mod file;
mod lines;
mod pack;

pub use file::{MAX_TEXT_BYTES, candidates, read};
pub use lines::FileLines;
pub use pack::pack_with_sources;
