//! Reports as text and as pages: `report`, `open`, `source`, and the page of `diff`.

pub mod diff;
mod glossary;
pub mod open;
mod reason;
pub mod report;
pub mod source;
