//! Check of accesses: they are those that their launches count, and every row splits into lanes.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, UInt32Type, UInt64Type};

use crate::{Found, Rule};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::table::Row;
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::memory::MemoryAccess;

const COLUMNS: [&str; 5] = ["kernel_id", "sequence", "lane_mask", "stride_bytes", "offsets"];

/// A launch's sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    requests: u64,
    lanes: u64,
}

pub(super) fn check(reader: &CaptureReader, found: &mut Found) {
    let mut sums = BTreeMap::new();
    let mut last = None;
    let batches = reader.read_columns(MemoryAccess::TABLE.name, &COLUMNS).into_iter().flatten();
    for batch in batches.map_while(Result::ok) {
        add(&batch, &mut sums, &mut last, found);
    }
    for (kernel, counted) in counted(reader, found) {
        let is = sums.remove(&kernel).unwrap_or_default();
        if is != counted {
            found.add(Rule::AccessCount, || {
                format!("launch {kernel}: rows hold {is}, but its runs count {counted}")
            });
        }
    }
    for (kernel, is) in sums {
        found.add(Rule::AccessCount, || format!("launch {kernel}: rows hold {is}, but no run counts them"));
    }
}

/// Sums of the runs of each launch: the program's and those that replayed it.
fn counted(reader: &CaptureReader, found: &mut Found) -> BTreeMap<u64, Sums> {
    let mut counted: BTreeMap<u64, Sums> = BTreeMap::new();
    let count = |launch: LaunchRun| {
        if let Some((requests, lanes)) = launch.request_count.zip(launch.lane_access_count) {
            let sum = counted.entry(launch.kernel_id.0).or_default();
            sum.requests = sum.requests.saturating_add(requests);
            sum.lanes = sum.lanes.saturating_add(lanes);
        }
    };
    if let Err(error) = reader.for_each_row(usize::MAX, count) {
        found.unreadable(&error);
    }
    counted
}

impl std::fmt::Display for Sums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} requests of {} lanes", self.requests, self.lanes)
    }
}

/// Adds up a batch. `last` is the (launch, sequence) of the row before: rows of one request stand together.
fn add(
    batch: &RecordBatch,
    sums: &mut BTreeMap<u64, Sums>,
    last: &mut Option<(u64, u64)>,
    found: &mut Found,
) -> Option<()> {
    let [kernel, sequence, mask, stride, offsets] = COLUMNS.map(|name| batch.column_by_name(name));
    let kernel = kernel?.as_primitive_opt::<UInt64Type>()?;
    let sequence = sequence?.as_primitive_opt::<UInt64Type>()?;
    let mask = mask?.as_primitive_opt::<UInt32Type>()?;
    let stride = stride?.as_primitive_opt::<Int32Type>()?;
    let offsets = offsets?.as_list_opt::<i32>()?;
    for row in 0..batch.num_rows() {
        let place = (kernel.value(row), sequence.value(row));
        let sum = sums.entry(place.0).or_default();
        sum.requests += u64::from(last.replace(place) != Some(place));
        let lanes = mask.value(row).count_ones();
        sum.lanes += u64::from(lanes);
        let listed = offsets.is_valid(row).then(|| offsets.value_length(row));
        let fits = match listed {
            Some(length) => stride.is_null(row) && i64::from(length) == i64::from(lanes),
            None => stride.is_valid(row),
        };
        if !fits || lanes == 0 {
            found.add(Rule::AccessCount, || {
                format!("launch {} request {}: its lanes and their addresses do not fit", place.0, place.1)
            });
        }
    }
    Some(())
}
