//! The parts that both GPU passes share: owned types over [`stallmap_sys`]; raw pointers stay in.

pub mod call;
pub mod code;
pub mod device;
pub mod graphs;
pub mod kernels;
pub mod name;
pub mod parameters;
pub mod selection;
