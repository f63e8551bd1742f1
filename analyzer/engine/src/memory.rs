//! Geometry of memory: ranges of addresses with lifetimes, strided views and their bins, the lanes of warp
//! requests, redundant loads, distances of reuse, and samples.
//!
//! Numbers only, without tables: the engine joins them.

pub mod bins;
pub mod cells;
pub mod conflicts;
pub mod distinct;
pub mod epochs;
pub mod few_sectors;
pub mod footprints;
pub mod grid;
mod lane_addresses;
pub mod life;
pub mod loads;
pub mod lru;
pub mod numbers;
pub mod patterns;
pub mod pieces;
mod regular;
pub mod repeats;
pub mod request;
pub mod sampler;
mod sector;
pub mod shape;
pub mod shares;
pub mod streams;
mod times;
pub mod unwritten;
pub mod view;
