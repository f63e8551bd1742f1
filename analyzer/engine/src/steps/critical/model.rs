//! The program that a critical path leads through: work of GPUs, and threads of the host.

/// The item that a piece of the path is charged to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PathItem {
    /// A kernel, by its function.
    Kernel(u64),
    /// A collective, by its function.
    Collective(u64),
    /// A copy, by its direction.
    Copy(String),
    /// A fill.
    Fill,
    /// Code of the host inside of an op, by its name. Without one, other code of the thread.
    Host(Option<String>),
    /// A call that launches work.
    Call,
    /// From the begin of a call to the begin of its work.
    Launch,
    /// From the end of work to the begin of work that waited for it.
    Handover,
    /// From the end of work to the return of a host that waited for it.
    Return,
    /// Time before work of which nothing is known that it waited for.
    Unknown,
}

impl PathItem {
    /// The word of its kind.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "kernel",
            Self::Collective(_) => "collective",
            Self::Copy(_) => "copy",
            Self::Fill => "fill",
            Self::Host(_) => "host",
            Self::Call => "call",
            Self::Launch => "launch",
            Self::Handover => "handover",
            Self::Return => "return",
            Self::Unknown => "unknown",
        }
    }

    /// The function of a kernel.
    pub(crate) fn function(&self) -> Option<u64> {
        match self {
            Self::Kernel(function) | Self::Collective(function) => Some(*function),
            _ => None,
        }
    }

    /// The op, or the direction of a copy.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Copy(direction) => Some(direction),
            Self::Host(op) => op.as_deref(),
            _ => None,
        }
    }
}

/// A piece of work of a GPU.
#[derive(Clone, Debug)]
pub(crate) struct CriticalWork {
    /// Its run, by index.
    pub(crate) run: usize,
    /// As in `gpu_activity`.
    pub(crate) activity_id: u64,
    /// The launch of a kernel.
    pub(crate) kernel_id: Option<u64>,
    /// The item that it is charged to.
    pub(crate) item: PathItem,
    /// Device and stream. None for work of no stream.
    pub(crate) stream: Option<(i32, u32)>,
    /// Begin and end.
    pub(crate) time: (i64, i64),
    /// The call of it: thread and event, by index.
    pub(crate) call: Option<(usize, usize)>,
    /// The collective that it is on one rank.
    pub(crate) match_id: Option<u64>,
}

/// A call or a wait of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostEvent {
    /// Begin and end.
    pub(crate) time: (i64, i64),
    /// The work whose end its end waited for, by index.
    pub(crate) blocked_by: Option<usize>,
}

/// A stretch of a thread in which the same op is the innermost one, up to the begin of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostStretch {
    /// Its begin.
    pub(crate) begin_ns: i64,
    /// The op or call, by the place of its item. None between ops and calls.
    pub(crate) item: Option<usize>,
    /// The op.
    pub(crate) op_id: Option<u64>,
    /// True between ops and calls, and in a region outside of ops: the thread may wait for another one.
    pub(crate) is_rest: bool,
}

/// A thread that launches work.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostThread {
    /// Its run, by index.
    pub(crate) run: usize,
    /// Calls and waits in the order of their begins.
    pub(crate) events: Vec<HostEvent>,
    /// Ends of those that waited for work, in order, each with that work.
    pub(crate) returns: Vec<(i64, usize)>,
    /// Its ops and calls, innermost first, without overlap.
    pub(crate) stretches: Vec<HostStretch>,
}

impl HostThread {
    /// Finds the ends of events that waited.
    pub(crate) fn find_returns(&mut self) {
        let waited = self.events.iter().filter_map(|event| Some((event.time.1, event.blocked_by?)));
        self.returns = waited.collect();
        self.returns.sort_unstable();
    }

    /// The last end of a wait up to a moment, with the work.
    pub(crate) fn last_return(&self, ns: i64) -> Option<(i64, usize)> {
        let count = self.returns.partition_point(|(end, _)| *end <= ns);
        self.returns.get(count.checked_sub(1)?).copied()
    }

    /// The stretch at a moment, by index. None before the first one.
    pub(crate) fn stretch_at(&self, ns: i64) -> Option<usize> {
        self.stretches.partition_point(|stretch| stretch.begin_ns <= ns).checked_sub(1)
    }
}

/// All that is known of the program, over all runs with a timeline.
#[derive(Clone, Debug, Default)]
pub(crate) struct CriticalModel {
    /// Work in the order of begins.
    pub(crate) works: Vec<CriticalWork>,
    /// Threads.
    pub(crate) threads: Vec<HostThread>,
    /// Items of stretches.
    pub(crate) host_items: Vec<PathItem>,
}

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepWindow {
    /// The run, by index.
    pub(crate) run: usize,
    /// The step. None in a program that repeats nothing.
    pub(crate) program_step: Option<u32>,
    /// Begin and end.
    pub(crate) time: (i64, i64),
}
