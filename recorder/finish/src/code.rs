//! Code: which instruction of which function an address is, and what the cubins say about their functions.

mod map;
mod modules;

pub(crate) use map::CodeMap;
pub(crate) use modules::Modules;
