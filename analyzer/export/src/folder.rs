//! A folder of files, for formats of several files: complete, or not there.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;

use stallmap_schema::capture::unfinished;

use stallmap_console::args::RowFormat;
use stallmap_console::exit::{CommandFailure, IO, Outcome, QUERY};
use stallmap_console::output;
use stallmap_console::output::rows::{self, RowStyle, WriteError};
use stallmap_console::output::table::TableShape;

/// A new folder, into which files are written. They are in their place after [`ExportFolder::keep`]; without it, nothing is.
pub(crate) struct ExportFolder {
    wanted: PathBuf,
    /// The folder of the files until then: next to the wanted one, or inside where that exists already.
    unfinished: PathBuf,
    is_new: bool,
}

impl ExportFolder {
    /// Begins a folder that does not exist, or an empty one.
    pub(crate) fn new(path: &Path) -> Outcome<Self> {
        let wrong = |error: io::Error| CommandFailure::io(error, format!("make `{}`", path.display()));
        let is_new = !path.exists();
        if !is_new && fs::read_dir(path).map_err(wrong)?.next().is_some() {
            return Err(CommandFailure::message(IO, format!("`{}` is not empty", path.display()))
                .hint("name a folder that does not exist".to_owned()));
        }
        let mut name = if is_new { path.file_name().unwrap_or_default().to_owned() } else { "".into() };
        name.push(format!(".{}.unfinished", std::process::id()));
        let unfinished = if is_new { path.with_file_name(name) } else { path.join(name) };
        let folder = Self { wanted: path.to_owned(), unfinished, is_new };
        unfinished::begin(&folder.unfinished);
        fs::create_dir_all(&folder.unfinished).map_err(wrong)?;
        Ok(folder)
    }

    /// Puts the files into their place.
    pub(crate) fn keep(self) -> Outcome<()> {
        let path = &self.wanted;
        self.move_files().map_err(|error| CommandFailure::io(error, format!("write `{}`", path.display())))
    }

    fn move_files(&self) -> io::Result<()> {
        if self.is_new {
            return fs::rename(&self.unfinished, &self.wanted);
        }
        for file in fs::read_dir(&self.unfinished)? {
            let file = file?;
            fs::rename(file.path(), self.wanted.join(file.file_name()))?;
        }
        Ok(())
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
        let path = self.unfinished.join(name);
        let wrong = |error: WriteError| match error {
            WriteError::Io(error) => self.unwritten(name, error),
            other => CommandFailure::new(QUERY, other),
        };
        let Some(first) = batches.first() else { return Ok(()) };
        let file = File::create_new(&path).map_err(WriteError::Io).map_err(wrong)?;
        let style = RowStyle { format, canvas: output::sheet(), shape: TableShape::default(), limit: None };
        let mut writer =
            rows::writer(Box::new(BufWriter::new(file)), &first.schema(), style).map_err(wrong)?;
        batches.iter().try_for_each(|batch| writer.write(batch)).map_err(wrong)?;
        writer.finish().map_err(wrong)
    }

    /// Writes text.
    pub(crate) fn text(&self, name: &str, text: &str) -> Outcome<()> {
        fs::write(self.unfinished.join(name), text).map_err(|error| self.unwritten(name, error))
    }

    fn unwritten(&self, name: &str, error: io::Error) -> CommandFailure {
        CommandFailure::io(error, format!("write `{}`", self.wanted.join(name).display()))
    }
}

impl Drop for ExportFolder {
    fn drop(&mut self) {
        // Gone already where it was renamed.
        drop(fs::remove_dir_all(&self.unfinished));
        unfinished::end(&self.unfinished);
    }
}
