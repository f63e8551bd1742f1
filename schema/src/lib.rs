//! Definition of a stallmap capture.
//!
//! Every table is declared in [`mod@tables`] with the [`declare`] macro: one line per column gives the row struct,
//! the Arrow schema (with doc, unit and reference as field metadata), the builder, the reader and the reference
//! page `docs/src/reference/tables.md`. [`capture`] is the layout on disk: container, manifest, Parquet files, and the
//! append-only segments that a recording writes before it is finalized.
//!
//! This crate knows neither DataFusion nor CUDA: the recorder and the analyzer meet here and nowhere else.

pub mod capture;
pub mod cell;
pub mod check;
pub mod collective;
pub mod contained;
pub mod declare;
pub mod hash;
pub mod id;
pub mod secrecy;
pub mod table;
pub mod tables;
pub mod tensor_map;
pub mod text;
pub mod word;
