//! Whole commands, as a user types them: standard output, standard error, exit code. No GPU is needed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod run;

mod doctor;
mod program;
mod readme;
mod recording;
mod refusals;
mod replay;
mod sandbox;

use stallmap_testkit::tiny;
