//! Geometry of memory: ranges of addresses with lifetimes, strided views and their bins, the lanes of warp
//! requests, distances of reuse, and samples.
//!
//! Numbers only, without tables: the engine joins them.

pub mod distinct;
pub mod grid;
pub mod life;
pub mod lru;
pub mod request;
pub mod sampler;
pub mod shape;
pub mod view;
