//! Progress on a terminal during long tasks.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use stallmap::session::SessionWork;

use super::in_line;

/// Delay before progress appears.
const PATIENCE: Duration = Duration::from_millis(400);
/// Delay before the time that is left appears.
const LONG: Duration = Duration::from_secs(2);
/// A smaller part of the work says little about the time that is left.
const SMALLEST_SHARE: f64 = 0.02;

/// A spinner on stderr that appears after a delay and disappears when dropped. Without a terminal, it does nothing.
pub struct ProgressSpinner(ProgressBar);

/// Reports progress from any thread. After the end it has no effect.
#[derive(Clone)]
pub struct ProgressReporter(ProgressBar);

impl ProgressSpinner {
    /// Starts to wait.
    pub fn start(message: impl Into<String>) -> Self {
        Self::begin(PATIENCE, &message.into(), None)
    }

    /// The same, for queries. After 2 s it shows the time that is left, estimated from the part of the work that is done.
    pub fn for_work(work: Arc<SessionWork>, message: impl Into<String>) -> Self {
        Self::after(PATIENCE, work, message)
    }

    /// The same with another delay.
    pub fn after(patience: Duration, work: Arc<SessionWork>, message: impl Into<String>) -> Self {
        work.forget_done();
        Self::begin(patience, &message.into(), Some(work))
    }

    fn begin(patience: Duration, message: &str, work: Option<Arc<SessionWork>>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_message(in_line(message).into_owned());
        if io::stderr().is_terminal() {
            let late = bar.clone();
            thread::spawn(move || {
                thread::sleep(patience);
                if !late.is_finished() {
                    show(&late, work);
                }
            });
        }
        Self(bar)
    }

    /// Sets the current task.
    pub fn say(&self, message: impl Into<String>) {
        self.0.set_message(in_line(&message.into()).into_owned());
    }

    /// A handle for other threads.
    pub fn voice(&self) -> ProgressReporter {
        ProgressReporter(self.0.clone())
    }
}

impl ProgressReporter {
    /// Sets the progress.
    pub fn say(&self, message: impl Into<String>) {
        if !self.0.is_finished() {
            self.0.set_message(in_line(&message.into()).into_owned());
        }
    }

    /// Ends it to free the terminal.
    pub fn end(&self) {
        end(&self.0);
    }
}

fn show(bar: &ProgressBar, work: Option<Arc<SessionWork>>) {
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}{left}") {
        bar.set_style(style.with_key("left", move |state: &ProgressState, out: &mut dyn Write| {
            if let Some(left) = work.as_ref().and_then(|work| time_left(state.elapsed(), work.share())) {
                // Progress that cannot be written is not worth an error.
                write!(out, ", about {} s left", left.as_secs() + 1).unwrap_or_default();
            }
        }));
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.enable_steady_tick(Duration::from_millis(100));
    // It may have ended meanwhile.
    if bar.is_finished() {
        end(bar);
    }
}

/// Time left after some time and a part of the work, 0 to 1. None where that is no time to speak of, or says little.
fn time_left(elapsed: Duration, share: f64) -> Option<Duration> {
    let is_known = elapsed >= LONG && (SMALLEST_SHARE..1.0).contains(&share);
    is_known.then(|| elapsed.mul_f64((1.0 - share) / share))
}

fn end(bar: &ProgressBar) {
    bar.disable_steady_tick();
    bar.finish_and_clear();
}

impl Drop for ProgressSpinner {
    fn drop(&mut self) {
        end(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_left_in_proportion_to_the_work() {
        assert_eq!(time_left(Duration::from_secs(3), 0.25), Some(Duration::from_secs(9)));
        assert_eq!(time_left(Duration::from_secs(1), 0.25), None, "too short to speak of");
        assert_eq!(time_left(Duration::from_secs(3), 0.001), None, "too little is known");
        assert_eq!(time_left(Duration::from_secs(3), 1.0), None, "nothing is left");
    }
}
