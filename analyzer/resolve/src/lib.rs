//! Targets of addresses: which tensor, storage or allocation an address belongs to when a launch begins.

pub mod copies;
pub mod faults;
pub mod index;
pub mod resolve;

use stallmap_memory::{life, request, view};
use stallmap_tables::parameters;
