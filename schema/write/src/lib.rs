//! Writing of captures: from rows ([`CaptureWriter`]), from another capture ([`mod@rewrite`]), from one form to the
//! other ([`mod@pack`]).
//!
//! The layout on disk is that of [`stallmap_schema::capture`]. Reading needs nothing of this crate.

mod container;
pub mod encoding;
pub mod labels;
pub mod pack;
pub mod rewrite;
pub mod stored;
mod writer;

pub use writer::{CaptureForm, CaptureWriter, GroupEncoder, PendingRows, RowGroup};
