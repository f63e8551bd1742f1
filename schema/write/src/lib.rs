//! Writing of captures: from rows ([`CaptureWriter`]), from the GPU's records ([`mod@requests`]), from another capture
//! ([`mod@rewrite`], [`mod@subset`]), from one form to the other ([`mod@pack`]), with the text of source lines
//! ([`mod@source`]).
//!
//! The layout on disk is that of [`stallmap_schema::capture`]. Reading needs nothing of this crate.

pub mod check;
mod container;
pub mod encoding;
pub mod labels;
pub mod pack;
pub mod requests;
pub mod rewrite;
pub mod source;
pub mod stored;
pub mod subset;
mod writer;

pub use writer::{CaptureForm, CaptureWriter, GroupEncoder, PendingRows, RowGroup};
