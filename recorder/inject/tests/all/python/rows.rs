//! Reader of the rows of a recording in progress.

use std::path::{Path, PathBuf};

use stallmap_schema::capture::segment::{FILE_NAME, SegmentFrame, SegmentReader};
use stallmap_schema::table::TableRow;

/// Every row of a table, of every process.
pub(crate) fn read<R: TableRow>(recording: &Path) -> Vec<R> {
    segments(recording).iter().flat_map(|segment| read_segment(segment)).collect()
}

/// The segment of each process.
pub(super) fn segments(recording: &Path) -> Vec<PathBuf> {
    let runs = std::fs::read_dir(recording).unwrap().map(|entry| entry.unwrap().path().join(FILE_NAME));
    runs.filter(|segment| segment.exists()).collect()
}

/// Every row of a table in a segment.
pub(super) fn read_segment<R: TableRow>(segment: &Path) -> Vec<R> {
    let reader = SegmentReader::open(segment).unwrap();
    let rows = reader.frames().iter().filter_map(|frame| match reader.read(frame).unwrap() {
        SegmentFrame::Rows { table, batch } if table == R::TABLE.name => Some(R::read_all(&batch).unwrap()),
        _ => None,
    });
    rows.flatten().collect()
}
