//! Raw access to NVIDIA's libraries, all opened at run time: what a machine lacks is a value, not a crash.

pub mod locate;
