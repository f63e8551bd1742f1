//! Tests of finalizing, on recordings like those of a recorded program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod append;
mod blocks;
mod bundles;
mod code;
mod finish;
mod hlo;
mod processes;
mod ranges;
mod recording;
mod recover;
mod replays;
mod samples;
mod size;
mod sources;
mod summaries;
mod timeline;
mod windows;
