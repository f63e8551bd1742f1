//! Code: the instruction at an address, with the cubins' facts about functions.

mod map;
mod modules;

pub(crate) use map::CodeMap;
pub(crate) use modules::Modules;
