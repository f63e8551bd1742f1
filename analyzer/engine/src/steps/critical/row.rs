//! The tables of critical paths, declared like those of a capture.

use stallmap_schema::id::{FunctionId, KernelId, OpId, RunId};
use stallmap_tables::derived::OpenWord;

stallmap_schema::tables! {
    /// One piece of the critical path of a step: the chain of kernels, copies, waits and code of the host that decides its
    /// length. Pieces of a step follow each other without gaps, and add up to its time.
    ///
    /// A path is found backward from the last work of a step, each time from what begins to what it waited for last: its
    /// launch call, the work before it on its stream, work of another stream (by times), on the host the work that the
    /// thread waited for, or another thread. At a collective it goes on in the rank that came last.
    CriticalSegment "critical_segment" key [run_id, position] sort [run_id, position] {
        /// The timeline run whose step it is.
        run_id: RunId => "run"."run_id",
        /// Position in all paths of the run, in the order of time.
        position: u64,
        /// The step, as in `launch_phase`. Null in a program that repeats nothing: it is one path.
        program_step: Option<u32>,
        /// The run in which the piece is: another one behind a collective of several ranks.
        at_run_id: RunId => "run"."run_id",
        /// kernel, collective, copy, fill, host (code of a thread), call (of a launch), launch (from the begin of a call to
        /// that of its work), handover (from the end of work to the begin of what waited for it), return (from the end of
        /// work to the return of a host that waited), unknown.
        kind: OpenWord,
        /// Begin, nanoseconds since the Unix epoch.
        begin_ns: i64,
        /// Its length, nanoseconds.
        duration_ns: i64,
        /// The work, as in `gpu_activity`: that which runs, or whose begin or end the piece leads to. Null on the host.
        activity_id: Option<u64>,
        /// The launch of that work. On the host, the launch that the thread goes on to.
        kernel_id: Option<KernelId> => "launch"."kernel_id",
        /// The innermost op of code of the host.
        op_id: Option<OpId> => "op"."op_id",
        /// The reason why the next piece follows: order (of one thread, or the parts of a launch), launch, stream, wait (of
        /// the host), inferred (work of another stream, by times), thread (one that waited for another, by times), rank,
        /// or end.
        relation: OpenWord,
    }
    /// One item of the critical path of a step, with its time on it, and the time of the step without it.
    CriticalItem "critical_item" key [] sort [run_id, program_step] {
        /// The timeline run.
        run_id: RunId => "run"."run_id",
        /// The step, as in `critical_segment`.
        program_step: Option<u32>,
        /// The kind, as in `critical_segment`.
        kind: OpenWord,
        /// The function of a kernel or collective.
        function_id: Option<FunctionId> => "function"."function_id",
        /// The op of code of the host, without a number behind it, or the direction of a copy. Null for code outside of ops.
        name: Option<String>,
        /// Pieces of the path.
        segment_count: u64,
        /// Time on the path, nanoseconds. All items of a step add up to `step_ns`.
        path_ns: i64,
        /// Length of the step.
        step_ns: i64,
        /// Length of the step if the item took no time and everything else came when it could. Null for time of unknown
        /// cause, and for all but the 24 items of a step with the most time.
        without_ns: Option<i64>,
    }
}
