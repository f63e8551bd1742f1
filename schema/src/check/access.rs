//! Check of accesses: they are those that their launches count, every row splits into lanes, and a request has several
//! rows only if one has no room for it. Counts by instruction and target take each row for a request.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, UInt32Type, UInt64Type};

use crate::capture::reader::CaptureReader;
use crate::check::{CaptureRule, ViolationList};
use crate::table::TableRow;
use crate::tables::launch::LaunchRun;
use crate::tables::memory::MemoryAccess;

const COLUMNS: [&str; 7] =
    ["kernel_id", "sequence", "lane_mask", "stride_bytes", "offsets", "address", "span_bytes"];

/// Bytes between lanes that fit one row, whatever the alignment of their offsets.
const ROOM_BYTES: u64 = 1 << 32;

/// A launch's sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AccessSums {
    requests: u64,
    lanes: u64,
}

/// The rows of one request so far.
struct OpenRequest {
    /// Launch and sequence.
    identity: (u64, u64),
    lane_mask: u32,
    /// The lowest address, and the highest that a row begins or ends at.
    low: u64,
    high: u64,
}

pub(super) fn check(reader: &CaptureReader, found: &mut ViolationList) {
    let mut sums = BTreeMap::new();
    let mut last = None;
    let batches = reader.read_columns(MemoryAccess::TABLE.name, &COLUMNS).into_iter().flatten();
    for batch in batches.map_while(Result::ok) {
        add(&batch, &mut sums, &mut last, found);
    }
    for (kernel, counted) in counted(reader, found) {
        let is = sums.remove(&kernel).unwrap_or_default();
        if is != counted {
            found.add(CaptureRule::AccessCount, || {
                format!("launch {kernel}: rows hold {is}, but its runs count {counted}")
            });
        }
    }
    for (kernel, is) in sums {
        found.add(CaptureRule::AccessCount, || {
            format!("launch {kernel}: rows hold {is}, but no run counts them")
        });
    }
}

/// Sums of the runs of each launch: the program's and those that replayed it.
fn counted(reader: &CaptureReader, found: &mut ViolationList) -> BTreeMap<u64, AccessSums> {
    let mut counted: BTreeMap<u64, AccessSums> = BTreeMap::new();
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

impl std::fmt::Display for AccessSums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} requests of {} lanes", self.requests, self.lanes)
    }
}

/// Adds up a batch. `last` is the request of the row before: rows of one request stand together.
fn add(
    batch: &RecordBatch,
    sums: &mut BTreeMap<u64, AccessSums>,
    last: &mut Option<OpenRequest>,
    found: &mut ViolationList,
) -> Option<()> {
    let [kernel, sequence, mask, stride, offsets, address, span] =
        COLUMNS.map(|name| batch.column_by_name(name));
    let kernel = kernel?.as_primitive_opt::<UInt64Type>()?;
    let sequence = sequence?.as_primitive_opt::<UInt64Type>()?;
    let mask = mask?.as_primitive_opt::<UInt32Type>()?;
    let stride = stride?.as_primitive_opt::<Int32Type>()?;
    let offsets = offsets?.as_list_opt::<i32>()?;
    let address = address?.as_primitive_opt::<UInt64Type>()?;
    let span = span?.as_primitive_opt::<UInt64Type>()?;
    for row in 0..batch.num_rows() {
        let identity = (kernel.value(row), sequence.value(row));
        let sum = sums.entry(identity.0).or_default();
        let low = address.value(row);
        let own = OpenRequest {
            identity,
            lane_mask: mask.value(row),
            low,
            high: low.saturating_add(span.value(row)),
        };
        if let Some(open) = last.as_mut().filter(|open| open.identity == identity) {
            open.add(&own, found);
        } else {
            sum.requests += 1;
            *last = Some(own);
        }
        let lanes = mask.value(row).count_ones();
        sum.lanes += u64::from(lanes);
        let listed = offsets.is_valid(row).then(|| offsets.value_length(row));
        let fits = match listed {
            Some(length) => stride.is_null(row) && i64::from(length) == i64::from(lanes),
            None => stride.is_valid(row),
        };
        if !fits || lanes == 0 {
            found.add(CaptureRule::AccessCount, || {
                format!(
                    "launch {} request {}: its lanes and their addresses do not fit",
                    identity.0, identity.1
                )
            });
        }
    }
    Some(())
}

impl OpenRequest {
    /// Adds a further row of the same request.
    fn add(&mut self, row: &Self, found: &mut ViolationList) {
        let (launch, request) = self.identity;
        if self.lane_mask & row.lane_mask != 0 {
            found.add(CaptureRule::AccessCount, || {
                format!("launch {launch} request {request}: two rows have one lane")
            });
        }
        let (low, high) = (self.low.min(row.low), self.high.max(row.high));
        if high - low < ROOM_BYTES {
            found.add(CaptureRule::AccessCount, || {
                format!("launch {launch} request {request}: two rows where one has room")
            });
        }
        (self.low, self.high, self.lane_mask) = (low, high, self.lane_mask | row.lane_mask);
    }
}
