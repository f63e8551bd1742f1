//! Geometry of memory: ranges of addresses with lifetimes, strided views, the lanes of warp
//! requests, and distances of reuse.
//!
//! Numbers only, without tables: the engine joins them.

pub mod life;
pub mod lru;
pub mod request;
pub mod shape;
pub mod view;
