//! Tests of a full disk: the error names it, complete rows stay readable, nothing incomplete is left.

use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::recording::RunFact;
use stallmap_schema::capture::segment::{SegmentReader, SegmentWriter};
use stallmap_schema::table::TableRow;
use stallmap_write::CaptureForm;

use crate::tiny;

const CHILD: &str = "STALLMAP_TEST_FULL_DISK";

/// Runs a test of this binary in a process whose files may have so many blocks of 512 bytes and no more.
fn limited(test: &str, folder: &std::path::Path, blocks: u32) {
    // The signal that comes with the limit would end the process before the error does.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let status = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(CHILD, folder)
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
}

fn child() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

#[test]
fn a_device_without_space_is_an_error() {
    let file = File::options().write(true).open("/dev/full").unwrap();
    let error = SegmentWriter::over(file, "rows.seg".as_ref()).err().unwrap();
    assert_eq!(error.to_string(), "write segment: No space left on device (os error 28): `rows.seg`");
    assert_eq!(error.hint().unwrap(), "free some space and try again");
}

/// Not a test of its own: runs where `limited` starts it.
#[test]
fn segment_in_child() {
    let Some(folder) = child() else { return };
    let mut writer = SegmentWriter::create(&folder.join("rows.seg")).unwrap();
    let rows = (0..4000).map(|index: u64| RunFact {
        name: "n".into(),
        value: format!("{:x}", index.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    });
    let batch = RunFact::batch(rows).unwrap();
    let mut stored = 0;
    let error = loop {
        match writer.append_batch("run_fact", &batch) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&error, CaptureError::Io { source, .. } if source.kind() == ErrorKind::FileTooLarge),
        "{error}"
    );
    // What still fits is written behind the last complete frame.
    writer.append_batch("run_fact", &batch.slice(0, 1)).unwrap();
    let reader = SegmentReader::open(&folder.join("rows.seg")).unwrap();
    assert_eq!((reader.frames().len(), reader.damages().len()), (stored + 1, 0));
}

#[test]
fn a_segment_on_a_full_disk_keeps_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    limited("full_disk::segment_in_child", folder.path(), 400);
    assert!(SegmentReader::open(&folder.path().join("rows.seg")).unwrap().frames().len() > 1);
}

/// Not a test of its own: runs where `limited` starts it.
#[test]
fn capture_in_child() {
    let Some(folder) = child() else { return };
    let error = tiny::write(&folder.join("tiny.stallmap"), CaptureForm::File).unwrap_err();
    assert!(
        matches!(&error, CaptureError::Io { source, .. } if source.kind() == ErrorKind::FileTooLarge),
        "{error}"
    );
}

#[test]
fn a_capture_on_a_full_disk_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    // Room for each table, not for the file of them all. Then not even for each table.
    for blocks in [60, 8] {
        limited("full_disk::capture_in_child", folder.path(), blocks);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
