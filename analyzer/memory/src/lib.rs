//! Geometry of memory: ranges of addresses with lifetimes, strided views, and the lanes of warp requests.
//!
//! Numbers only, without tables: the engine joins them.

pub mod life;
pub mod request;
pub mod shape;
pub mod view;
