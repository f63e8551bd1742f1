//! `stallmap export`: formats of other tools, from stallmap's views. Each format is a file here and queries in
//! `sql/export`.

mod folded;
mod tenprof;

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;

use stallmap_console::args::RowFormat;
use stallmap_console::args::export::{Export, Form};
use stallmap_console::context::Context;
use stallmap_console::exit::{Failure, IO, Outcome, QUERY};
use stallmap_console::output::rows::{self, Style, WriteError};
use stallmap_console::output::{self, written};

/// Writes the files of a form.
pub(super) fn run(context: &Context, args: &Export) -> Outcome {
    match &args.form {
        Form::Tenprof(args) => tenprof::run(context, args),
        Form::Folded(args) => folded::run(context, args),
    }
}

/// A new folder, into which files are written.
struct Folder(PathBuf);

impl Folder {
    /// Creates the folder, or uses an empty one.
    fn new(path: &Path) -> Outcome<Self> {
        let wrong = |error: io::Error| Failure::io(error, format!("make `{}`", path.display()));
        fs::create_dir_all(path).map_err(wrong)?;
        if fs::read_dir(path).map_err(wrong)?.next().is_some() {
            return Err(Failure::message(IO, format!("`{}` is not empty", path.display()))
                .hint("name a folder that does not exist".to_owned()));
        }
        Ok(Self(path.to_owned()))
    }

    /// Writes rows as CSV. Text with commas, quotes or line ends is quoted.
    fn csv(&self, name: &str, batches: &[RecordBatch]) -> Outcome<()> {
        let path = self.0.join(name);
        let wrong = |error: WriteError| match error {
            WriteError::Io(error) => Failure::io(error, format!("write `{}`", path.display())),
            other => Failure::new(QUERY, other),
        };
        let Some(first) = batches.first() else { return Ok(()) };
        let file = File::create_new(&path).map_err(WriteError::Io).map_err(wrong)?;
        let style = Style { format: RowFormat::Csv, canvas: output::sheet(), limit: None };
        let mut writer =
            rows::writer(Box::new(BufWriter::new(file)), &first.schema(), style).map_err(wrong)?;
        batches.iter().try_for_each(|batch| writer.write(batch)).map_err(wrong)?;
        writer.finish().map_err(wrong)
    }

    /// Writes text.
    fn text(&self, name: &str, text: &str) -> Outcome<()> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|error| Failure::io(error, format!("write `{}`", path.display())))
    }
}

/// Prints queries under the names of their files.
fn print_queries<'a>(queries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Outcome<()> {
    let mut out = output::stdout();
    queries.into_iter().try_for_each(|(file, sql)| {
        use io::Write as _;
        written(writeln!(out, "-- {file}\n{sql}"))
    })
}
