//! Call paths with their samples, as lists of frames.

use stallmap_console::row::TextList;
use stallmap_console::rows;

rows! {
    /// A path from Python to an object, and its samples. The rows of a capture add up to its samples.
    pub(crate) struct CallStack {
        frames: TextList,
        ops: TextList,
        kernel: Option<String>,
        file: Option<String>,
        line: Option<u32>,
        pub(crate) stall_reason: String,
        object: String,
        pub(crate) samples: f64,
        pub(crate) memory_samples: f64,
        pub(crate) time_ns: Option<f64>,
    }

    /// The samples of a launch for one reason and object.
    pub(crate) struct LaunchStack {
        pub(crate) kernel_id: u64,
        frames: TextList,
        ops: TextList,
        kernel: Option<String>,
        stall_reason: String,
        object: String,
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

impl CallStack {
    /// The frames, callers first: Python, ops, kernel, source line, stall reason, object.
    pub(crate) fn path(&self) -> Vec<CallFrame> {
        let mut path = self.kernel_path();
        path.push(CallFrame::named(&self.stall_reason));
        path.push(CallFrame::named(&self.object));
        path
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
        path.push(CallFrame::named(&self.stall_reason));
        path.push(CallFrame::named(&self.object));
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
