//! Tables of other tools as CSV: a message says which tool wrote it, and how to get a file that is read.

use std::io::Read as _;

use crate::error::{ReadError, ReadResult};
use crate::formats::input::ImportInput;

/// Bytes of a file in which marks are searched for.
const HEAD_BYTES: u64 = 4 << 10;
/// A mark of each tool, its file, and a hint.
const KNOWN: [(&str, &str, &str); 4] = [
    (
        "Start_Timestamp",
        "a table of rocprofv3 as CSV",
        "record with `rocprofv3 --output-format rocpd` or `json`",
    ),
    ("\"gpu-id\"", "a table of rocprof 1 or 2", "record with `rocprofv3 --kernel-trace`"),
    ("Total Time (ns)", "a summary of `nsys stats`", "export the report with `nsys export -t sqlite`"),
    ("NVPROF", "what nvprof prints", "record with `nsys profile -t cuda,nvtx`"),
];

/// The failure of a table of another tool. None if its tool is not known.
pub(super) fn tool(input: &ImportInput) -> ReadResult<Option<ReadError>> {
    let mut head = Vec::new();
    let result = input.open()?.take(HEAD_BYTES).read_to_end(&mut head);
    result.map_err(|error| ReadError::io(error, format!("read `{}`", input.path.display())))?;
    let head = String::from_utf8_lossy(&head);
    let known = KNOWN.iter().find(|(mark, ..)| head.contains(mark));
    Ok(known.map(|(_, file, hint)| {
        let message = format!("`{}` is {file}, which is not imported", input.path.display());
        ReadError::message(message).hint((*hint).to_owned())
    }))
}
