//! Everything that reaches the user: the only code that writes to stdout and stderr.
//!
//! stdout is data. Messages, notes and progress go to stderr. Everything passes a [`gate::ControlFilter`], except data for
//! programs where stdout is no terminal.

pub mod file;
pub mod frames;
pub mod gate;
pub mod html;
pub mod markdown;
pub mod number;
pub mod pager;
pub mod paint;
pub mod progress;
pub mod rows;
pub mod shorten;
pub mod table;
pub mod value;

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use gate::ControlFilter;
use paint::{TextPaint, TextRole};
pub use stallmap_schema::text::{in_line, path};
pub use table::TableCanvas;

use crate::exit::{CommandFailure, Outcome};

/// True if text is as wide as its names and columns need.
static WIDE: AtomicBool = AtomicBool::new(false);

/// The name of a file that is standard output.
const STDOUT: &str = "-";

/// Columns of text that is not for a terminal.
const PAGE_WIDTH: usize = 120;

/// Buffered standard output for text.
pub fn stdout() -> BufWriter<ControlFilter<Stdout>> {
    BufWriter::new(ControlFilter::new(io::stdout(), TextPaint::for_stream(&io::stdout()).is_on()))
}

/// Buffered standard output for data that programs read, byte for byte. On a terminal it is text.
pub fn data() -> rows::RowSink {
    if is_terminal() { Box::new(stdout()) } else { Box::new(BufWriter::new(io::stdout())) }
}

/// Standard output in a format: text, or data.
pub fn stdout_as(is_text: bool) -> rows::RowSink {
    if is_text { Box::new(stdout()) } else { data() }
}

/// Standard output for a long text: on a terminal, a pager takes what does not fit.
pub fn paged() -> Box<dyn Write> {
    match pager::Pager::of_environment(|name| std::env::var(name).ok()).sink() {
        Some(sink) => Box::new(sink),
        None => Box::new(stdout()),
    }
}

/// True if standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Decides if text is as wide as its names and columns need, as `--wide` asks.
pub fn widen(is_wide: bool) {
    WIDE.store(is_wide, Ordering::Relaxed);
}

/// True if text is as wide as its names and columns need.
pub fn is_wide() -> bool {
    WIDE.load(Ordering::Relaxed)
}

/// The canvas of reports: as wide as the terminal, or a page.
pub fn page() -> TableCanvas {
    if is_wide() {
        return TableCanvas { width: None, paint: TextPaint::for_stream(&io::stdout()) };
    }
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = terminal_width().or(columns).unwrap_or(PAGE_WIDTH).max(40);
    TableCanvas { width: Some(width), paint: TextPaint::for_stream(&io::stdout()) }
}

/// The canvas of query results: they are data, and complete unless a terminal limits them.
pub fn sheet() -> TableCanvas {
    TableCanvas {
        width: terminal_width().filter(|_| !is_wide()),
        paint: TextPaint::for_stream(&io::stdout()),
    }
}

fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    terminal_size::terminal_size_of(&stdout)
        .filter(|_| stdout.is_terminal())
        .map(|(width, _)| usize::from(width.0))
}

/// Clears the line of the terminal on standard error, such as one with a ^C that the terminal echoed.
pub fn clear_line() {
    if io::stderr().is_terminal() {
        // Without a terminal to write to, nothing has to be cleared.
        drop(io::stderr().write_all(b"\r\x1b[2K"));
    }
}

/// Writes text to standard output.
pub fn print(text: &str) -> Outcome<()> {
    let mut out = stdout();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes data that programs read to standard output.
pub fn print_data(content: &[u8]) -> Outcome<()> {
    let mut out = data();
    written(out.write_all(content).and_then(|()| out.flush()))
}

/// Turns the result of writing to standard output into an outcome.
pub fn written<T>(result: io::Result<T>) -> Outcome<T> {
    result.map_err(|error| CommandFailure::io(error, "write to standard output"))
}

/// Prints the reason for a failure. A closed pipe is silent.
pub fn message(failure: &CommandFailure) {
    if !failure.is_broken_pipe() {
        let paint = TextPaint::for_stream(&io::stderr());
        let text = gate::shown(&failure.to_string(), false);
        note(text.replacen("error:", &paint.text(TextRole::Error, "error:"), 1));
    }
}

/// Says that a file or folder was written, and nothing of standard output.
pub fn wrote(file: &Path) {
    if file == Path::new(STDOUT) {
        return;
    }
    note(format_args!("wrote {}", path(file)));
}

/// Writes one message to stderr.
pub fn note(text: impl Display) {
    // A failure to write to stderr cannot be reported.
    let colours = TextPaint::for_stream(&io::stderr()).is_on();
    drop(writeln!(io::stderr(), "{}", gate::shown(&text.to_string(), colours)));
}
