//! How lists of rows are printed.

use clap::ValueEnum;

use super::RowFormat;

/// How a list is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// For people, as wide as the terminal, coverage first
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One array of objects
    Json,
    /// One object a line
    Jsonl,
}

impl ListFormat {
    /// The format of rows for programs; none for people.
    pub const fn for_programs(self) -> Option<RowFormat> {
        match self {
            Self::Table => None,
            Self::Csv => Some(RowFormat::Csv),
            Self::Json => Some(RowFormat::Json),
            Self::Jsonl => Some(RowFormat::Jsonl),
        }
    }
}
