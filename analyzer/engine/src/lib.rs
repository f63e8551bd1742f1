//! Address × lifetime -> tensor: the interval join that a query planner cannot build.
//!
//! ```text
//! storages, allocations --> life (who lives at a launch, by address) --+
//! tensors, ops -----------> view (which view holds an address) --------+--> resolve --> access_tensor, pc_tensor
//! memory accesses --------> request (lanes, sectors, bytes) -----------+
//! ```
//!
//! Rule: candidates are the storages whose range contains the address and whose lifetime contains the launch. Of
//! several, the smallest wins, then the newest. Among the views of that storage that an op had created before the
//! launch, those of the running op come first, then those of the enclosing ops, nearest first, then all others. Among
//! equals, the view that covers the fewest bytes wins, then the newest. Views match by strides, not by bounding range.
//! An address in a storage but in no view belongs to the storage. In no storage, it belongs to the device allocation,
//! as `outside any tensor`. Otherwise it is an `unknown address`. A lane belongs to the target of its first byte.
//!
//! A node of a graph has the addresses of its capture: candidates are the storages whose lifetime contains the
//! capture's ordinal, although for Python the memory of the graph is free when the capture ends.
//!
//! In addition, the shapes of requests: the addresses that they touch, and their pattern, regardless of the owner.

pub mod access;
pub mod analyses;
mod analysis;
mod analyze;
mod cells;
mod classes;
pub mod code;
pub mod copies;
mod defects;
pub mod exec;
pub mod fault_facts;
mod faults;
pub mod index;
pub mod launches;
pub mod memory;
#[cfg(test)]
mod partition_tests;
mod pointer;
mod races;
mod redundancy;
#[cfg(test)]
mod reference_tests;
pub mod resolve;
mod reuse;
mod rows;
mod runs;
mod shapes;
mod sharing;
pub mod steps;
mod straddle;
#[cfg(test)]
mod stream_tests;
mod strides;
mod summarized;
mod summary;
pub mod table;
mod tensor_map;
mod together;
mod touch;
mod unwritten;
mod values;

pub use crate::memory::{distinct, grid, life, lru, request, sampler, shape, view};
pub use stallmap_tables::derived;
use stallmap_tables::parameters;
