//! Facts about each capture: from its manifest and its tables of runs and devices. All else stays closed until a query
//! reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::labels::{CaptureLabels, RECORDED};
use stallmap_schema::capture::manifest::TableEntry;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::tables::run::{Device, Run, RunOption};

use crate::FoundCapture;
use crate::contents::CaptureContents;
use crate::skipped::SkippedCaptures;
use crate::stored::StoredCatalog;

/// The label with the commit of the program.
const COMMIT: &str = "commit";
/// Maximum rows of a table that facts are made from.
const MAX_ROWS: usize = 100_000;
/// Captures on servers that are read at the same time: each waits for answers.
const REMOTE_AT_ONCE: usize = 16;

/// The facts about a capture.
#[derive(Clone, Debug)]
pub(crate) struct CaptureFacts {
    pub(crate) capture: FoundCapture,
    pub(crate) labels: CaptureLabels,
    /// The rank, if all runs have one and the same.
    pub(crate) rank: Option<u32>,
    pub(crate) host: Option<String>,
    pub(crate) gpu: Option<String>,
    pub(crate) started_ns: Option<i64>,
    pub(crate) bytes: i64,
    /// Its contents. None if it was not read.
    pub(crate) contents: Option<CaptureContents>,
}

/// The columns of facts, in front of the rows of every table.
pub(crate) fn fields() -> Vec<Field> {
    let text = |name, is_nullable| Field::new(name, DataType::Utf8, is_nullable);
    vec![
        text("capture", false),
        text("commit", true),
        text("labels", false),
        Field::new("rank", DataType::UInt32, true),
        text("host", true),
        text("gpu", true),
        Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
    ]
}

/// The meaning of each column of facts, then of those that only the table of captures has.
pub(crate) const DOCS: [(&str, &str); 9] = [
    ("capture", "The capture: its path below the folder. With several folders, the path with the folder."),
    ("commit", "Its label `commit`."),
    ("labels", "All its labels as text. `label(labels, 'model')` is one."),
    ("rank", "The rank of its runs. Null for several."),
    ("host", "Hosts of its runs."),
    ("gpu", "Names of its devices."),
    ("time", "Start of its first run."),
    ("bytes", "Bytes of its tables and files."),
    ("skipped", "Reason why it cannot be read. Null if it can."),
];

/// The facts as a batch, a row for each capture.
pub(crate) fn batch(facts: &[CaptureFacts]) -> Result<RecordBatch, ArrowError> {
    let text = |value: fn(&CaptureFacts) -> Option<String>| -> ArrayRef {
        Arc::new(facts.iter().map(value).collect::<StringArray>())
    };
    let columns = vec![
        text(|facts| Some(facts.capture.name.clone())),
        text(|facts| facts.labels.get(COMMIT).cloned()),
        text(|facts| Some(facts.labels_text())),
        Arc::new(facts.iter().map(|facts| facts.rank).collect::<UInt32Array>()) as ArrayRef,
        text(|facts| facts.host.clone()),
        text(|facts| facts.gpu.clone()),
        Arc::new(facts.iter().map(|facts| facts.started_ns).collect::<TimestampNanosecondArray>()),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields())), columns)
}

/// The table of captures: their facts, their bytes, and why one is skipped.
pub(crate) fn catalog(facts: &[CaptureFacts], skipped: &SkippedCaptures) -> Result<RecordBatch, ArrowError> {
    let facts_of_all = batch(facts)?;
    let mut columns = facts_of_all.columns().to_vec();
    columns.push(Arc::new(facts.iter().map(|facts| Some(facts.bytes)).collect::<Int64Array>()));
    let reasons = facts.iter().map(|facts| skipped.reason(&facts.capture.name));
    columns.push(Arc::new(reasons.collect::<StringArray>()));
    RecordBatch::try_new(catalog_schema(), columns)
}

/// The columns of the table of captures.
pub(crate) fn catalog_schema() -> SchemaRef {
    let mut all = fields();
    all.push(Field::new("bytes", DataType::Int64, false));
    all.push(Field::new("skipped", DataType::Utf8, true));
    Arc::new(Schema::new(all))
}

/// The facts about captures, in their order: from the catalog, else from the captures. Those that cannot be read have none but
/// their name.
pub(crate) fn read_all(
    captures: Vec<FoundCapture>,
    stored: &StoredCatalog,
    skipped: &SkippedCaptures,
) -> Vec<CaptureFacts> {
    let is_remote = captures.iter().any(|capture| capture.location.is_remote());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = if is_remote { threads.max(REMOTE_AT_ONCE) } else { threads }.min(captures.len()).max(1);
    let (next, read) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(capture) = captures.get(at) else { break };
            let facts = stored
                .facts(capture)
                .map_or_else(|| CaptureFacts::read(capture).map_err(|error| error.to_string()), Ok);
            read.lock().unwrap_or_else(PoisonError::into_inner).insert(at, facts);
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut read = read.into_inner().unwrap_or_else(PoisonError::into_inner);
    let facts = |(at, capture): (usize, FoundCapture)| match read.remove(&at) {
        Some(Ok(facts)) => facts,
        failed => {
            let reason = failed.and_then(Result::err).unwrap_or_else(|| "it was not read".to_owned());
            skipped.add(&capture.name, &reason);
            CaptureFacts::unknown(capture)
        }
    };
    captures.into_iter().enumerate().map(facts).collect()
}

impl CaptureFacts {
    fn read(capture: &FoundCapture) -> Result<Self, CaptureError> {
        let reader = capture.location.open()?;
        let held = entries(&reader);
        reader.prefetch(held.iter().map(String::as_str));
        let (mut ranks, mut hosts, mut gpus) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut started_ns: Option<i64> = None;
        reader.for_each_row(MAX_ROWS, |run: Run| {
            ranks.insert(run.rank);
            hosts.insert(run.host);
            started_ns = Some(started_ns.unwrap_or(i64::MAX).min(run.started_ns));
        })?;
        reader.for_each_row(MAX_ROWS, |device: Device| gpus.extend([device.name]))?;
        Ok(Self {
            capture: capture.clone(),
            labels: labels(&reader)?,
            rank: if ranks.len() == 1 { ranks.pop_first().flatten() } else { None },
            host: joined(&hosts),
            gpu: joined(&gpus),
            started_ns: started_ns.or(Some(reader.manifest().created_ns)),
            bytes: reader.manifest().entries().map(|(_, bytes, _)| bytes.cast_signed()).sum(),
            contents: Some(CaptureContents::read(&reader)?),
        })
    }

    fn unknown(capture: FoundCapture) -> Self {
        let (labels, rank, host, gpu, started_ns) = (CaptureLabels::new(), None, None, None, None);
        Self { capture, labels, rank, host, gpu, started_ns, bytes: 0, contents: None }
    }

    /// All labels, as text that `label()` reads.
    pub(crate) fn labels_text(&self) -> String {
        let labels = self.labels.iter().map(|(key, value)| format!("{key}={value}"));
        labels.collect::<Vec<_>>().join(", ")
    }
}

/// The entries that facts are read from.
fn entries(reader: &CaptureReader) -> Vec<String> {
    let is_read = |table: &&TableEntry| ["run", "device", "run_option", "function"].contains(&&*table.name);
    reader.tables().iter().filter(is_read).map(|table| entry::table(&table.name)).collect()
}

/// The labels of a capture: those of its recording, then those that were given to it later.
fn labels(reader: &CaptureReader) -> Result<CaptureLabels, CaptureError> {
    let mut labels = CaptureLabels::new();
    reader.for_each_row(MAX_ROWS, |option: RunOption| {
        if let Some(key) = option.name.strip_prefix(RECORDED).filter(|_| !option.value.is_empty()) {
            labels.insert(key.to_owned(), option.value);
        }
    })?;
    labels.extend(reader.manifest().labels.clone());
    labels.retain(|_, value| !value.is_empty());
    Ok(labels)
}

fn joined(names: &BTreeSet<String>) -> Option<String> {
    let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
