//! From a capture to results: tables, views and functions that SQL can query.
//!
//! ```text
//! capture file ──> tables (Parquet, by ranges) ──────┐
//! capture at a URL ─> remote (blocks, by ranges) ────┤
//! sql/**/*.sql ──> library (views, with their docs) ─┼──> session (DataFusion) ──> SQL ──> rows
//! engine (address × life -> tensor), functions ──────┤
//! code (who waits for whom, from cubins) ────────────┘
//! ```
//!
//! [`session::Session`] is the only place that builds a DataFusion context. Nothing here writes to stdout, parses a
//! command line or formats a result: the binary does.

pub mod error;
pub mod lexer;
pub mod library;
pub mod redact;
pub mod session;
pub mod statements;

pub use stallmap_engine::code;
pub use stallmap_tables as tables;
pub use stallmap_tables::location;
pub use stallmap_tables::planning::bounds::ending;
pub use stallmap_tables::remote;
