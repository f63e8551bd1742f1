//! Code: the instruction at an address, with the cubins' facts about functions.

mod executions;
mod map;
mod modules;

pub(crate) use executions::KernelExecutions;
pub(crate) use map::CodeMap;
pub(crate) use modules::RecordedModules;
