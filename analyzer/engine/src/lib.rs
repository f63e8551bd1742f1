//! Address × life -> tensor: the interval join that a query planner cannot make.
//!
//! ```text
//! storages, allocations --> life (who lives at a launch, by address) --+
//! tensors, ops -----------> view (which view holds an address) --------+--> resolve --> access_tensor, pc_tensor
//! memory accesses --------> request (lanes, sectors, bytes) -----------+
//! ```
//!
//! The rule: candidates are the storages whose range holds the address and whose life holds the launch; of several,
//! the smallest, then the newest. Among the views of that storage that an op had made before the launch: those that
//! take part in the running op first, then those in the ops around it, nearest first, then all others; among equals
//! the one that covers the fewest bytes, then the newest; always by strides, not by bounding range. An address in a
//! storage but in no view is the storage's; in no storage, the device allocation's, as `outside any tensor`; else it
//! is an `unknown address`. A lane belongs where the first byte that it accesses lies.
//!
//! A node of a graph has the addresses of its capture: candidates are the storages whose life holds the ordinal that the
//! capture took, although memory of the graph is free, in Python's view, when the capture ends.
//!
//! Beside that, the shapes of requests: what they touch and how, whoever owns it.

pub mod access;
pub mod analyses;
mod analysis;
mod analyze;
mod cells;
mod copies;
pub mod derived;
mod distinct;
pub mod exec;
mod grid;
pub mod index;
pub mod life;
mod memory;
mod redundancy;
#[cfg(test)]
mod reference;
pub mod request;
pub mod resolve;
mod reuse;
mod rows;
mod runs;
pub mod shape;
mod shapes;
mod sharing;
#[cfg(test)]
mod stream_tests;
pub mod table;
mod tensor_map;
mod touch;
pub mod view;
mod words;
