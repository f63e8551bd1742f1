//! The first difference of each aspect of launches, and the amount that was compared.

use super::row::OrderedLaunch;

/// An aspect of launches, in the order in which one can cause another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LaunchAspect {
    Sequence,
    Code,
    Shape,
    Arguments,
    MemoryBefore,
    Accesses,
    MemoryAfter,
}

impl LaunchAspect {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sequence => "sequence of launches",
            Self::Code => "code",
            Self::Shape => "shape",
            Self::Arguments => "arguments",
            Self::MemoryBefore => "memory before",
            Self::Accesses => "accesses",
            Self::MemoryAfter => "memory after",
        }
    }
}

/// The first launch at which two runs differ in one aspect.
#[derive(Clone, Debug)]
pub(super) struct FirstDifference {
    pub(super) aspect: LaunchAspect,
    /// The launch in the first run. None if only the other has it.
    pub(super) launch: Option<u64>,
    pub(super) other_launch: Option<u64>,
    pub(super) kernel: String,
    /// The tensor, or other memory.
    pub(super) object: Option<String>,
    pub(super) detail: String,
    pub(super) line: Option<String>,
    pub(super) op: Option<String>,
}

impl FirstDifference {
    pub(super) fn for_pair(
        aspect: LaunchAspect,
        a: &OrderedLaunch,
        b: &OrderedLaunch,
        detail: String,
    ) -> Self {
        Self {
            aspect,
            launch: Some(a.kernel_id),
            other_launch: Some(b.kernel_id),
            kernel: a.kernel.clone(),
            object: None,
            detail,
            line: a.line.clone(),
            op: a.op.clone(),
        }
    }

    /// The launch, the memory and the difference in words.
    pub(super) fn text(&self) -> String {
        let place = match (self.launch, self.other_launch) {
            (Some(launch), Some(other)) if launch != other => {
                format!("launch {launch} ({other} in the other)")
            }
            (Some(launch), _) => format!("launch {launch}"),
            (None, Some(other)) => format!("launch {other} of the other"),
            (None, None) => "a launch".to_owned(),
        };
        let line = self.line.as_ref().map(|line| format!(" at {line}")).unwrap_or_default();
        let object = self.object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
        format!("{place}, {}{line}: {object}{}", self.kernel, self.detail)
    }

    /// The same with the memory that differs.
    pub(super) fn with_object(mut self, object: String) -> Self {
        self.object = Some(object);
        self
    }
}

/// The part of one aspect that could be compared.
#[derive(Clone, Debug)]
pub(super) struct AspectCoverage {
    pub(super) name: &'static str,
    pub(super) compared: u64,
    pub(super) total: u64,
    /// The reason for the rest.
    pub(super) reason: &'static str,
}
