//! Layout on disk: the container of a capture, and the segments of a recording in progress.
//!
//! A capture is a ZIP file or the same tree as a folder. [`reader`] opens it, [`manifest`] lists its content, the crate
//! `stallmap-write` makes it and turns one form into the other. A recording in progress appends to [`segment`] files,
//! whose frames carry the rows of [`recording`] and of [`mod@crate::tables`] and the GPU's own records, [`request`].
//!
//! ```text
//! manifest.json                format, writer, tables and files with their BLAKE3 hashes
//! tables/<table>.parquet       every table of crate::tables, zstd, sorted, with statistics and page index
//! cubins/<hash>.cubin.zst      cubins by the BLAKE3 hash of the cubin as loaded, 64 hexadecimal digits
//! ```
//!
//! In the ZIP every entry is stored, not compressed, and begins at a multiple of 64 bytes. It is read without
//! unpacking, and any tool that reads ZIP opens it.

pub mod bounds;
mod container;
pub mod entry;
pub mod error;
pub mod identity;
pub mod labels;
pub mod manifest;
pub mod numbering;
mod opened;
pub mod pages;
pub mod reader;
pub mod recording;
pub mod request;
pub mod segment;
pub mod source;
pub mod stored;
pub mod unfinished;
