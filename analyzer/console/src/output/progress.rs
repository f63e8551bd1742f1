//! Progress on a terminal during long tasks.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::shorten::printable;

/// Delay before progress appears.
const PATIENCE: Duration = Duration::from_millis(400);

/// A spinner on stderr that appears after a delay and disappears when dropped. Without a terminal, it does nothing.
pub struct Progress(ProgressBar);

/// Reports progress from any thread. After the end it has no effect.
#[derive(Clone)]
pub struct Voice(ProgressBar);

impl Progress {
    /// Starts to wait.
    pub fn start(message: impl Into<String>) -> Self {
        Self::after(PATIENCE, message)
    }

    /// The same with another delay.
    pub fn after(patience: Duration, message: impl Into<String>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_message(printable(&message.into()));
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

    /// Sets the current task.
    pub fn say(&self, message: impl Into<String>) {
        self.0.set_message(printable(&message.into()));
    }

    /// A handle for other threads.
    pub fn voice(&self) -> Voice {
        Voice(self.0.clone())
    }
}

impl Voice {
    /// Sets the progress.
    pub fn say(&self, message: impl Into<String>) {
        if !self.0.is_finished() {
            self.0.set_message(printable(&message.into()));
        }
    }

    /// Ends it to free the terminal.
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
