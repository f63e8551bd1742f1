//! Bundles: launches recorded with the memory that they read and write, for replay.
//!
//! ```text
//! launch begins   selection → candidates (possibly written) → saved to pinned host memory
//! launch runs     the ring's reader gathers the pages of its accesses
//! launch ends     pages placed (device memory, variables, or a reason to refuse) → contents and hashes → rows
//! ```
//!
//! Everything but [`buffer`] and [`symbols`] is pure: the sanitizer instrument gives it ways to read memory.

use stallmap_schema::tables::replay::PAGE_BYTES;

pub mod buffer;
pub mod candidates;
pub mod contents;
pub mod memory;
pub mod pages;
pub mod place;
pub mod ranges;
pub mod recorded;
pub mod refusal;
pub mod selection;
pub mod symbols;
pub mod uses;

/// log2 of the bytes of a page.
pub const PAGE_SHIFT: u32 = PAGE_BYTES.trailing_zeros();
/// Bytes of a page.
pub const PAGE_BYTES_U64: u64 = 1 << PAGE_SHIFT;

/// The bytes of a page.
pub type PageBytes = [u8; PAGE_BYTES];
