//! The text of source lines is that of the files that ran.

use std::fs::{self, File};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use stallmap_schema::hash;
use stallmap_schema::tables::python::{PythonFrame, SourceLine};

use crate::finish::finished_with;
use crate::recording::put;

/// The text of line 2 of a file that changed at a time, and its rows in the capture. Recording began 7 ns after the epoch.
fn text_of(file: &Path, changed: SystemTime) -> Vec<Option<String>> {
    File::options().write(true).open(file).unwrap().set_modified(changed).unwrap();
    let name = file.to_str().unwrap().to_owned();
    let frame = PythonFrame {
        frame_id: hash::frame_id("model.py", "forward", 1, 2),
        file: "model.py".into(),
        original_file: name.clone(),
        function: "forward".into(),
        first_line: 1,
        line: 2,
    };
    let capture = finished_with(|segment| put(segment, [frame]), |_| ());
    capture.rows::<SourceLine>().into_iter().filter(|row| row.file == name).map(|row| row.text).collect()
}

#[test]
fn lines_have_the_text_that_ran() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.py");
    fs::write(&file, "def forward(x):\n    return x + 1\n").unwrap();
    assert_eq!(text_of(&file, UNIX_EPOCH), [Some("    return x + 1".to_owned())]);
    assert_eq!(text_of(&file, SystemTime::now()), [None], "a file that was edited since is another one");
    fs::write(&file, "\ndef forward(x):\n    return x + 1\n").unwrap();
    assert_eq!(text_of(&file, UNIX_EPOCH), [None], "its functions begin elsewhere");
}
