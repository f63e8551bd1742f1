//! Formats of other tools' files: recognized by content, unpacked, and read in bounds as values without a meaning.
//!
//! A file is data from elsewhere. Each reader bounds lengths, counts and nesting, and an error names the file and the
//! position.

pub mod decimal;
pub mod input;
pub mod json;
pub mod msgpack;
pub mod pickle;
pub mod proto;
