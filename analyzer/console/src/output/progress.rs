//! Signs of life on a terminal while something takes long.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What takes less is over before it is worth a word.
const PATIENCE: Duration = Duration::from_millis(400);

/// A spinner on stderr that appears after a moment and is gone when dropped; nothing where stderr is no terminal.
pub struct Progress(ProgressBar);

/// Says how far something is; from any thread, and after its end to nobody.
#[derive(Clone)]
pub struct Voice(ProgressBar);

impl Progress {
    /// Starts to wait.
    pub fn start(message: impl Into<String>) -> Self {
        Self::after(PATIENCE, message)
    }

    /// The same with more or less patience.
    pub fn after(patience: Duration, message: impl Into<String>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_message(message.into());
        if io::stderr().is_terminal() {
            let late = bar.clone();
            thread::spawn(move || {
                thread::sleep(patience);
                if !late.is_finished() {
                    show(&late);
                }
            });
        }
        Self(bar)
    }

    /// Says what is being done now.
    pub fn say(&self, message: impl Into<String>) {
        self.0.set_message(message.into());
    }

    /// What others say it with.
    pub fn voice(&self) -> Voice {
        Voice(self.0.clone())
    }
}

impl Voice {
    /// Says how far it is.
    pub fn say(&self, message: impl Into<String>) {
        if !self.0.is_finished() {
            self.0.set_message(message.into());
        }
    }

    /// Ends it: the terminal is needed.
    pub fn end(&self) {
        end(&self.0);
    }
}

fn show(bar: &ProgressBar) {
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.enable_steady_tick(Duration::from_millis(100));
    // It may have ended meanwhile.
    if bar.is_finished() {
        end(bar);
    }
}

fn end(bar: &ProgressBar) {
    bar.disable_steady_tick();
    bar.finish_and_clear();
}

impl Drop for Progress {
    fn drop(&mut self) {
        end(&self.0);
    }
}
