//! A folder of files, for formats of several files.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;

use stallmap_console::args::RowFormat;
use stallmap_console::exit::{Failure, IO, Outcome, QUERY};
use stallmap_console::output;
use stallmap_console::output::rows::{self, Style, WriteError};
use stallmap_console::output::table::Shape;

/// A new folder, into which files are written.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates the folder, or uses an empty one.
    pub(crate) fn new(path: &Path) -> Outcome<Self> {
        let wrong = |error: io::Error| Failure::io(error, format!("make `{}`", path.display()));
        fs::create_dir_all(path).map_err(wrong)?;
        if fs::read_dir(path).map_err(wrong)?.next().is_some() {
            return Err(Failure::message(IO, format!("`{}` is not empty", path.display()))
                .hint("name a folder that does not exist".to_owned()));
        }
        Ok(Self(path.to_owned()))
    }

    /// Writes rows as CSV. Text with commas, quotes or line ends is quoted.
    pub(crate) fn csv(&self, name: &str, batches: &[RecordBatch]) -> Outcome<()> {
        self.rows(name, RowFormat::Csv, batches)
    }

    /// Writes rows as Parquet, with the metadata of their columns.
    pub(crate) fn parquet(&self, name: &str, batches: &[RecordBatch]) -> Outcome<()> {
        self.rows(name, RowFormat::Parquet, batches)
    }

    fn rows(&self, name: &str, format: RowFormat, batches: &[RecordBatch]) -> Outcome<()> {
        let path = self.0.join(name);
        let wrong = |error: WriteError| match error {
            WriteError::Io(error) => Failure::io(error, format!("write `{}`", path.display())),
            other => Failure::new(QUERY, other),
        };
        let Some(first) = batches.first() else { return Ok(()) };
        let file = File::create_new(&path).map_err(WriteError::Io).map_err(wrong)?;
        let style = Style { format, canvas: output::sheet(), shape: Shape::default(), limit: None };
        let mut writer =
            rows::writer(Box::new(BufWriter::new(file)), &first.schema(), style).map_err(wrong)?;
        batches.iter().try_for_each(|batch| writer.write(batch)).map_err(wrong)?;
        writer.finish().map_err(wrong)
    }

    /// Writes text.
    pub(crate) fn text(&self, name: &str, text: &str) -> Outcome<()> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|error| Failure::io(error, format!("write `{}`", path.display())))
    }
}
