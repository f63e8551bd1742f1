//! Layout on disk: the finished container, and the segments of a recording in progress.
//!
//! A finished capture is a ZIP file or the same tree as a folder; [`writer`] makes it, [`reader`] opens it,
//! [`manifest`] says what is in it. A recording in progress appends to [`segment`] files, whose frames carry the
//! rows of [`recording`] and of [`crate::tables`] and the GPU's own records, [`request`].

pub mod error;
pub mod recording;
pub mod request;
pub mod segment;
