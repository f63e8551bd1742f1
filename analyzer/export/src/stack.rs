//! Call paths with their samples, as lists of frames.

use stallmap::library::queries::export as queries;
use stallmap_console::exit::{CommandFailure, Outcome, QUERY};
use stallmap_console::row::TextList;
use stallmap_console::rows;

use crate::source::ExportSource;

rows! {
    /// A path from Python to an object, and its samples. The rows of a capture add up to its samples.
    pub(crate) struct CallStack {
        frames: TextList,
        ops: TextList,
        kernel: Option<String>,
        file: Option<String>,
        line: Option<u32>,
        pub(crate) stall_reason: Option<String>,
        object: Option<String>,
        pub(crate) samples: f64,
        pub(crate) memory_samples: f64,
        pub(crate) time_ns: Option<f64>,
        pub(crate) launches: u64,
    }

    /// The samples of a launch for one reason and object, or its nanoseconds in a capture without samples.
    pub(crate) struct LaunchStack {
        pub(crate) kernel_id: u64,
        frames: TextList,
        ops: TextList,
        kernel: Option<String>,
        stall_reason: Option<String>,
        object: Option<String>,
        pub(crate) samples: f64,
    }
}

/// One frame of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CallFrame {
    /// The function, op, kernel, line, reason or object.
    pub(crate) name: String,
    /// Its source file. Empty if unknown.
    pub(crate) file: String,
    /// Its line. 0 if unknown, as the formats define it.
    pub(crate) line: u32,
}

impl CallFrame {
    fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), file: String::new(), line: 0 }
    }

    /// A frame from `file:line function`.
    fn of_python(text: &str) -> Self {
        let parts = text.split_once(' ').and_then(|(place, function)| {
            let (file, line) = place.rsplit_once(':')?;
            Some((file, line.parse().ok()?, function))
        });
        parts.map_or_else(
            || Self::named(text),
            |(file, line, function)| Self { name: function.to_owned(), file: file.to_owned(), line },
        )
    }
}

/// The paths of a capture with their samples and times.
pub(crate) struct StackSource {
    pub(crate) rows: Vec<CallStack>,
    /// True if any path has samples.
    pub(crate) has_samples: bool,
    /// True if the time of any path is known.
    pub(crate) has_time: bool,
}

impl StackSource {
    /// Reads the paths.
    ///
    /// # Errors
    /// A capture without samples and times has nothing to show.
    pub(crate) fn read(source: &ExportSource) -> Outcome<Self> {
        let rows: Vec<CallStack> = source.read(queries::STACKS)?;
        let has_samples = rows.iter().any(|stack| stack.samples > 0.0);
        let has_time = rows.iter().any(|stack| stack.time_ns.is_some());
        if !has_samples && !has_time {
            return Err(empty());
        }
        Ok(Self { rows, has_samples, has_time })
    }
}

/// The failure of a capture without samples and times.
pub(crate) fn empty() -> CommandFailure {
    CommandFailure::message(QUERY, "the capture has no kernels with samples or times")
        .hint("`stallmap export memory-snapshot` or `parquet` has the rest".to_owned())
}

impl CallStack {
    /// The frames, callers first: Python, ops, kernel, source line, stall reason, object.
    pub(crate) fn path(&self) -> Vec<CallFrame> {
        let mut path = self.kernel_path();
        path.extend(self.stall_reason.iter().chain(&self.object).map(CallFrame::named));
        path
    }

    /// The frame of the object. None for a launch without samples.
    pub(crate) fn object(&self) -> Option<CallFrame> {
        self.object.as_ref().map(CallFrame::named)
    }

    /// The frames up to the source line.
    pub(crate) fn kernel_path(&self) -> Vec<CallFrame> {
        let mut path = launched(&self.frames, &self.ops, self.kernel.as_deref());
        if let (Some(file), Some(line)) = (&self.file, self.line) {
            path.push(CallFrame { name: format!("{file}:{line}"), file: file.clone(), line });
        }
        path
    }
}

impl LaunchStack {
    /// The frames, callers first: Python, ops, kernel, stall reason, object.
    pub(crate) fn path(&self) -> Vec<CallFrame> {
        let mut path = launched(&self.frames, &self.ops, self.kernel.as_deref());
        path.extend(self.stall_reason.iter().chain(&self.object).map(CallFrame::named));
        path
    }
}

/// The frames of a launch. Missing levels have a name, and all paths have the same levels.
fn launched(frames: &TextList, ops: &TextList, kernel: Option<&str>) -> Vec<CallFrame> {
    let mut path: Vec<CallFrame> = frames.0.iter().map(|frame| CallFrame::of_python(frame)).collect();
    if path.is_empty() {
        path.push(CallFrame::named("(no Python stack)"));
    }
    path.extend(ops.0.iter().map(CallFrame::named));
    if ops.0.is_empty() {
        path.push(CallFrame::named("(no op)"));
    }
    path.push(CallFrame::named(kernel.unwrap_or("(unknown kernel)")));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_frames_have_a_file_and_a_line() {
        let frame = CallFrame::of_python("models/gpt.py:31 main.<locals>.<lambda>");
        assert_eq!((frame.file.as_str(), frame.line), ("models/gpt.py", 31));
        assert_eq!(frame.name, "main.<locals>.<lambda>");
        for text in ["plain", "a b", "a:b c", ""] {
            assert_eq!(CallFrame::of_python(text), CallFrame::named(text), "{text}");
        }
    }
}
