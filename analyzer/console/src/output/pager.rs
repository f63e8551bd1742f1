//! Text longer than the screen goes through a pager. Without one, or when it dies, nothing fails.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::gate::ControlFilter;
use super::paint::TextPaint;
use super::shorten::width;

/// The default pager: quits if all fits, preserves colours, cuts long lines, leaves the text on the screen.
const DEFAULT: &str = "less -FRSX";
/// The same for lines that are longer than the screen: it stays, because -F would leave at once, and scrolls sideways.
const SIDEWAYS: &str = "less -RSX";

/// Which pager is used, and whether.
#[derive(Clone, Debug)]
pub struct Pager {
    /// The program and its arguments.
    command: Vec<String>,
    /// True if the user wants it.
    pub is_on: bool,
    /// True if it takes lines that are longer than the screen, too, and scrolls sideways.
    pub is_sideways: bool,
    /// True while it has the terminal.
    has_terminal: Arc<AtomicBool>,
}

impl Pager {
    /// The pager of `STALLMAP_PAGER`, else of `PAGER`, else `less`. `variable` looks them up. An empty one disables
    /// paging.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let command = variable("STALLMAP_PAGER").or_else(|| variable("PAGER"));
        let mut pager =
            Self { command: Vec::new(), is_on: true, is_sideways: false, has_terminal: Arc::default() };
        pager.use_command(command.as_deref().unwrap_or(DEFAULT));
        pager
    }

    /// Uses another program. Its arguments are separated by spaces.
    pub fn use_command(&mut self, command: &str) {
        self.command = command.split_whitespace().map(str::to_owned).collect();
        self.is_on = !self.command.is_empty();
    }

    /// The program and its arguments.
    pub fn command(&self) -> String {
        self.command.join(" ")
    }

    /// True if a running pager has the terminal: keys belong to it then.
    pub fn has_terminal(&self) -> bool {
        self.has_terminal.load(Ordering::SeqCst)
    }

    /// A sink for one text. None without a pager.
    pub fn sink(&self) -> Option<ControlFilter<PagedText>> {
        Some(ControlFilter::new(self.paged()?, TextPaint::for_stream(&io::stdout()).is_on()))
    }

    fn paged(&self) -> Option<PagedText> {
        let stdout = io::stdout();
        let (columns, height) = terminal_size::terminal_size_of(&stdout).filter(|_| stdout.is_terminal())?;
        (self.is_on && io::stdin().is_terminal()).then(|| PagedText {
            pager: self.clone(),
            // The prompt needs one.
            room: usize::from(height.0).saturating_sub(1),
            columns: columns.0.into(),
            lines: 0,
            state: PagedState::Held(Vec::new()),
        })
    }
}

/// A text on its way to the terminal.
pub struct PagedText {
    pager: Pager,
    room: usize,
    columns: usize,
    lines: usize,
    state: PagedState,
}

/// State of the text.
enum PagedState {
    /// Here, as long as it fits.
    Held(Vec<u8>),
    /// In a pager.
    Piped(Child),
    /// On the terminal: there is no pager.
    Plain,
}

impl PagedText {
    /// Passes the held text to the pager, or to the terminal without one.
    fn start(&mut self) -> io::Result<()> {
        let PagedState::Held(held) = std::mem::replace(&mut self.state, PagedState::Plain) else {
            return Ok(());
        };
        let command = self.pager.command();
        let is_sideways = self.pager.is_sideways && command == DEFAULT;
        let command = if is_sideways { SIDEWAYS } else { &command };
        let mut words = command.split(' ');
        let program = words.next().unwrap_or_default();
        // Without LESS, less shows neither tilde nor bell.
        let started = Command::new(program).args(words).stdin(Stdio::piped()).spawn();
        match started {
            Ok(child) => {
                self.pager.has_terminal.store(true, Ordering::SeqCst);
                self.state = PagedState::Piped(child);
            }
            Err(error) => super::note(format_args!("note: pager `{program}` cannot be run ({error})")),
        }
        self.write_all(&held)
    }
}

impl Write for PagedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.state {
            PagedState::Held(held) => {
                held.extend_from_slice(bytes);
                self.lines += bytes.split(|&byte| byte == b'\n').count() - 1;
                if self.lines > self.room {
                    self.start()?;
                }
                Ok(bytes.len())
            }
            PagedState::Piped(child) => match &mut child.stdin {
                Some(stdin) => stdin.write(bytes),
                None => Err(ErrorKind::BrokenPipe.into()),
            },
            PagedState::Plain => io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            PagedState::Held(_) => Ok(()),
            PagedState::Piped(child) => child.stdin.as_mut().map_or(Ok(()), Write::flush),
            PagedState::Plain => io::stdout().flush(),
        }
    }
}

/// True if a line is longer than the screen. Colours have no width.
fn is_broad(text: &[u8], columns: usize) -> bool {
    let visible = |line: &str| {
        let mut parts = line.split('\u{1b}');
        let first = parts.next().map_or(0, width);
        let rest = parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| width(rest)));
        first + rest.sum::<usize>()
    };
    String::from_utf8_lossy(text).lines().any(|line| visible(line) > columns)
}

impl Drop for PagedText {
    fn drop(&mut self) {
        let is_held_back = self.pager.is_sideways
            && matches!(&self.state, PagedState::Held(held) if is_broad(held, self.columns));
        if is_held_back {
            // A closed pager is ignored.
            drop(self.start());
        }
        match &mut self.state {
            PagedState::Held(held) => {
                let mut out = io::stdout().lock();
                // A closed terminal is ignored.
                drop(out.write_all(held).and_then(|()| out.flush()));
            }
            PagedState::Piped(child) => {
                drop(child.stdin.take());
                // Its exit code does not matter: the user has seen the text.
                drop(child.wait());
                self.pager.has_terminal.store(false, Ordering::SeqCst);
            }
            PagedState::Plain => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_not_broad() {
        assert!(!is_broad("\u{1b}[1m1234\u{1b}[0m\n12345\n".as_bytes(), 5));
        assert!(is_broad("\u{1b}[1m1234\u{1b}[0m\n──────\n".as_bytes(), 5));
    }

    #[test]
    fn the_environment_names_a_pager() {
        let pager = |named: &'static [(&str, &str)]| {
            Pager::of_environment(move |name| {
                named.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(pager(&[]).command(), DEFAULT);
        assert_eq!(pager(&[("PAGER", "more"), ("STALLMAP_PAGER", "most -s")]).command(), "most -s");
        assert!(pager(&[("PAGER", "more")]).is_on);
        assert!(!pager(&[("PAGER", "")]).is_on);
    }
}
