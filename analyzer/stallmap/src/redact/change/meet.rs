//! Facts to collect before any change: names of users and machines, and used memory.

use arrow::array::RecordBatch;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::cell::ColumnCell as _;
use stallmap_schema::tables::code::Function;
use stallmap_schema::tables::launch::TensorMap;
use stallmap_schema::tables::python::PythonFrame;
use stallmap_schema::tables::run::{Device, Run};
use stallmap_schema::tables::tensor::{Op, Tensor};

use crate::redact::addresses::{AddressRebase, UsedRegions};
use crate::redact::words::WordRedactor;
use crate::redact::{AlsoRedact, RedactOptions};

use super::column::is_public_op;

const MAX_ROWS: usize = 4 << 20;
/// Columns of addresses, with the columns of their sizes.
const USED: [(&str, &str, Option<&str>); 12] = [
    ("device_allocation", "address", Some("size_bytes")),
    ("storage", "address", Some("size_bytes")),
    ("tensor", "address", Some("span_bytes")),
    ("memcpy", "source", Some("size_bytes")),
    ("memcpy", "destination", Some("size_bytes")),
    ("memset", "address", Some("size_bytes")),
    ("memory_access", "address", Some("span_bytes")),
    ("access_summary", "address", Some("span_bytes")),
    ("access_summary", "block_address", None),
    ("bundle_page", "address", None),
    ("tensor_map", "address", None),
    ("texture", "address", Some("size_bytes")),
];
const PAGE_BYTES: u64 = 4096;

/// Collects the users, machines and folders that a capture names, and the names that are replaced on request.
pub(in super::super) fn meet(
    reader: &CaptureReader,
    words: &mut WordRedactor,
    options: &RedactOptions,
) -> Result<(), CaptureError> {
    for run in reader.read_rows::<Run>()? {
        words.host(&run.host);
        words.path(&run.program);
        words.whole_folder(&run.working_directory);
        words.meet_in_text(&run.arguments);
    }
    for uuid in reader.read_rows::<Device>()?.iter().filter_map(|device| device.uuid.as_deref()) {
        words.host(uuid);
    }
    reader.for_each_row(MAX_ROWS, |frame: PythonFrame| {
        words.path(&frame.original_file);
        words.path(&frame.file);
    })?;
    if options.also.contains(&AlsoRedact::Names) {
        meet_names(reader, words)?;
    }
    if options.also.contains(&AlsoRedact::Symbols) { meet_symbols(reader, words) } else { Ok(()) }
}

/// Names of the model. Regions and options can repeat them.
fn meet_names(reader: &CaptureReader, words: &mut WordRedactor) -> Result<(), CaptureError> {
    let mut meet = |name: Option<String>| {
        // A region can be named like a part that holds others.
        for (end, _) in name.iter().flat_map(|name| name.match_indices('.').chain([(name.len(), "")])) {
            let part = name.as_deref().and_then(|name| name.get(..end)).unwrap_or_default();
            let alias = words.part_names(part);
            words.name(part, &alias);
        }
    };
    reader.for_each_row(MAX_ROWS, |op: Op| meet(op.module_path))?;
    reader.for_each_row(MAX_ROWS, |tensor: Tensor| meet(tensor.name))
}

/// Names of code. Errors, options and names of the model can repeat them.
fn meet_symbols(reader: &CaptureReader, words: &mut WordRedactor) -> Result<(), CaptureError> {
    let mut meet = |name: &str| {
        if !is_public_op(name) {
            words.name(name, &words.symbol(name));
        }
    };
    reader.for_each_row(MAX_ROWS, |function: Function| {
        meet(&function.name);
        meet(&function.demangled_name);
    })?;
    reader.for_each_row(MAX_ROWS, |op: Op| meet(&op.name))
}

/// Mapping of the memory that a capture uses.
pub(in super::super) fn rebase(reader: &CaptureReader) -> Result<AddressRebase, CaptureError> {
    let mut regions = UsedRegions::default();
    for (table, address, size) in USED {
        if reader.table_entry(table).is_err() {
            continue;
        }
        let columns: Vec<&str> = [Some(address), size].into_iter().flatten().collect();
        for batch in reader.read_columns(table, &columns)? {
            add(&batch?, address, size, &mut regions);
        }
    }
    reader.for_each_row(MAX_ROWS, |map: TensorMap| {
        // The last stride is the one of the last dimension but one, and spans all before it.
        let span = map
            .sizes
            .iter()
            .skip(1)
            .zip(&map.strides)
            .map(|(size, stride)| size.saturating_mul(*stride))
            .max();
        regions.add(map.address.0, span.unwrap_or(PAGE_BYTES));
    })?;
    regions.rebase().ok_or_else(|| CaptureError::Corrupt {
        thing: "addresses".to_owned(),
        cause: "they span more memory than possible and cannot be moved".to_owned(),
        path: reader.path().to_owned(),
    })
}

fn add(batch: &RecordBatch, address: &str, size: Option<&str>, regions: &mut UsedRegions) {
    let Some(addresses) = batch.column_by_name(address) else { return };
    let sizes = size.and_then(|size| batch.column_by_name(size));
    for row in 0..batch.num_rows() {
        let Some(address) = u64::read(addresses, row) else { continue };
        let bytes = sizes.map_or(Some(PAGE_BYTES), |sizes| u64::read(sizes, row));
        regions.add(address, bytes.unwrap_or(0));
    }
}
