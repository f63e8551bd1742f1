//! Output formats of lists.

use clap::ValueEnum;

use super::RowFormat;

/// Output format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// Tables for reading, as wide as the terminal, coverage first
    #[value(alias = "text")]
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One array of objects
    Json,
    /// One object per line
    Jsonl,
    /// A table for comments and documents
    #[value(alias = "md")]
    Markdown,
}

impl ListFormat {
    /// The format of rows for programs. None for tables.
    pub const fn for_programs(self) -> Option<RowFormat> {
        match self {
            Self::Table => None,
            Self::Csv => Some(RowFormat::Csv),
            Self::Json => Some(RowFormat::Json),
            Self::Jsonl => Some(RowFormat::Jsonl),
            Self::Markdown => Some(RowFormat::Markdown),
        }
    }
}
