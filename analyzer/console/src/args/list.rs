//! Output formats of lists.

use clap::{Args, ValueEnum};

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

/// Options for the output format of a list.
#[derive(Args, Clone, Debug)]
pub struct ListOutput {
    /// Output format
    #[arg(long, value_enum, default_value_t = ListFormat::Table)]
    format: ListFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl ListOutput {
    /// The output format.
    pub fn format(&self) -> ListFormat {
        if self.json { ListFormat::Json } else { self.format }
    }
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
