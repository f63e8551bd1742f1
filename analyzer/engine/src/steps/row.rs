//! The table of phases, declared like those of a capture.

use stallmap_schema::id::{KernelId, RunId};
use stallmap_tables::derived::OpenWord;

stallmap_schema::tables! {
    /// The phase of the program that one launch belongs to: set-up, a step of the repeated part, or the end.
    ///
    /// Steps are recorded ones (ranges around steps, calls of the optimizer), else the part of the sequence of kernels
    /// that repeats. A step of which layers are a repeated part is the outermost repetition.
    LaunchPhase "launch_phase" key [kernel_id] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The run that defines it: one for each process.
        run_id: RunId => "run"."run_id",
        /// setup, steady (in a step), end (behind the last step), once, in a program that repeats nothing, or apart, of a
        /// process without steps where another one has some.
        program_phase: OpenWord,
        /// Part of set-up: initialization, tuning (trials of a tuner, anywhere in the program), or warm-up (first steps that
        /// take half as long again as later ones, or more). Null elsewhere.
        setup_part: Option<OpenWord>,
        /// The step, numbered from 0. Null outside steps.
        program_step: Option<u32>,
        /// Begin of the range around the step, nanoseconds since the Unix epoch. Null unless ranges show the steps.
        step_begin_ns: Option<i64>,
        /// Its end, or the begin of the next one if that is earlier.
        step_end_ns: Option<i64>,
        /// Evidence of the steps: range, optimizer, period (the sequence of kernels), or none.
        found_by: OpenWord,
        /// Sureness of the steps, from 0 to 1. Null without steps.
        confidence: Option<f64>,
    }
}
