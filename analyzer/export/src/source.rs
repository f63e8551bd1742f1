//! A capture as the source of a format: its queries and their rows.

use std::io::{self, Write as _};

use arrow::array::RecordBatch;
use flate2::Compression;
use flate2::write::GzEncoder;
use stallmap::library::queries::CommandQuery;
use stallmap::location::CaptureLocation;
use stallmap::session::Session;
use stallmap_console::answer::fresh_rows as rows;
use stallmap_console::args::export::FileExport;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, IO, OK, Outcome, QUERY, USAGE};
use stallmap_console::output::file::save;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::{self, written};
use stallmap_console::row::QueryRow;
use tokio::runtime::Runtime;

/// A format of one file.
pub(crate) struct FileFormat {
    /// The queries whose rows it writes.
    pub(crate) queries: &'static [CommandQuery],
    /// Converts the rows to the bytes of the file.
    pub(crate) write: fn(&ExportSource) -> Outcome<Vec<u8>>,
}

impl FileFormat {
    /// Writes the file, or prints the queries.
    pub(crate) fn run(&self, context: &CommandContext, args: &FileExport) -> Outcome {
        if args.sql {
            print_queries(self.queries.iter().map(|query| (query.name, query.sql(&[]))))?;
            return Ok(OK);
        }
        let Some(path) = &args.output else {
            return Err(CommandFailure::message(USAGE, "the output file is missing")
                .hint("name it with `-o FILE`, or print the queries with `--sql`".to_owned()));
        };
        let source = ExportSource::open(context, &args.capture)?;
        let bytes = (self.write)(&source)?;
        save(path, &bytes)?;
        output::wrote(path);
        Ok(OK)
    }
}

/// An open capture.
pub(crate) struct ExportSource {
    session: Session,
    runtime: Runtime,
}

impl ExportSource {
    /// Opens a capture.
    pub(crate) fn open(context: &CommandContext, capture: &CaptureLocation) -> Outcome<Self> {
        let _progress = ProgressSpinner::start(format!("opening {}", capture.display()));
        Ok(Self { session: context.open(&[(None, capture.clone())])?, runtime: runtime()? })
    }

    /// The rows of a query.
    pub(crate) fn read<R: QueryRow>(&self, query: CommandQuery) -> Outcome<Vec<R>> {
        let _progress = ProgressSpinner::for_work(self.session.work(), format!("querying {}", query.name));
        R::read(query.name, &self.batches(&query.sql(&[]))?)
    }

    /// The only row of a query, if it has one.
    pub(crate) fn first<R: QueryRow>(&self, query: CommandQuery) -> Outcome<Option<R>> {
        Ok(self.read(query)?.into_iter().next())
    }

    /// The rows of a statement.
    pub(crate) fn batches(&self, sql: &str) -> Outcome<Vec<RecordBatch>> {
        self.runtime.block_on(rows(&self.session, sql))
    }

    /// The session.
    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }
}

/// Prints queries under the names of their parts.
pub(crate) fn print_queries<N: AsRef<str>, S: AsRef<str>>(
    queries: impl IntoIterator<Item = (N, S)>,
) -> Outcome<()> {
    let mut out = output::stdout();
    queries
        .into_iter()
        .try_for_each(|(name, sql)| written(writeln!(out, "-- {}\n{}", name.as_ref(), sql.as_ref())))
}

/// A JSON document as bytes.
pub(crate) fn json(document: &impl serde::Serialize) -> Outcome<Vec<u8>> {
    serde_json::to_vec(document).map_err(|error| CommandFailure::new(QUERY, error))
}

/// Compressed bytes. The header holds no time, and equal captures give equal files.
pub(crate) fn gzip(bytes: &[u8]) -> Outcome<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let done = |error: io::Error| CommandFailure::new(IO, error);
    encoder.write_all(bytes).map_err(done)?;
    encoder.finish().map_err(done)
}
