//! Whole commands, as a user types them: standard output, standard error, exit code. No GPU is needed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "cli/run.rs"]
mod run;

#[path = "../../../schema/examples/tiny_capture/tiny.rs"]
mod tiny;

#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/program.rs"]
mod program;
#[path = "cli/readme.rs"]
mod readme;
#[path = "cli/recording.rs"]
mod recording;
#[path = "cli/refusals.rs"]
mod refusals;
#[path = "cli/replay.rs"]
mod replay;
