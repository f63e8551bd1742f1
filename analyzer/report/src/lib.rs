//! Reports as text and as pages: `stallmap report` and `stallmap source`.

pub mod report;
pub mod source;
