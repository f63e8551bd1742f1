//! The access pass: every memory instruction of selected kernels patched, every launch, allocation and copy seen.
//!
//! A patched warp writes a record into a [`ring`] in pinned memory; a reader thread moves records to their launches.
//!
//! Another pass times the blocks of launches instead, with patches at their begins and ends only: [`timing`].

pub mod blocks;
pub mod bundle;
pub mod kinds;
pub mod patch;
pub mod ring;
pub mod sanitizer;
pub mod timing;
