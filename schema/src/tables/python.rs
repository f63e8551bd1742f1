//! Python stacks, and the text of source lines.

use crate::id::{FrameId, PystatesHash, RunId};

crate::tables! {
    /// A frame of a Python stack: a function at a line.
    PythonFrame "python_frame" key [frame_id] sort [frame_id] {
        /// Stable hash of (file, function, first line, line).
        frame_id: FrameId,
        /// File, relative to the longest of script folder, sys.path entry, site-packages. A name that Python's tempfile
        /// made up is replaced by a hash of the content.
        file: String,
        /// File as Python named it.
        original_file: String,
        /// Qualified name of the function.
        function: String,
        /// First line of the function. 0 where it is not known: JAX does not keep it.
        first_line: u32,
        /// The running line.
        line: u32,
    }
    /// One frame's place in one Python stack.
    PythonState "python_state" key [pystates_hash, depth] sort [pystates_hash, depth] {
        /// Stable hash of the whole stack.
        pystates_hash: PystatesHash,
        /// 0 for the innermost frame.
        depth: u32,
        /// The frame.
        frame_id: FrameId => "python_frame"."frame_id",
        /// The first run that saw the stack.
        run_id: RunId => "run"."run_id",
    }
    /// A line of source code that a Python stack or the line table of used code names.
    SourceLine "source_line" key [file, line] sort [file, line] {
        /// File as `python_frame.original_file` or the compiler names it.
        file: String,
        /// Line, from 1.
        line: u32,
        /// Its text, indented, up to 1,000 bytes. Null if the file could not be read when recording ended.
        text: Option<String>,
    }
}
