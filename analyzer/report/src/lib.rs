//! Reports as text and as pages: the verdict, `stallmap why`, `report`, `open` and `source`.

pub mod open;
pub mod report;
pub mod source;
pub mod verdict;
pub mod why;
