//! The catalog of captures as a file of the user's cache: what is known about each version of each capture. It can be
//! deleted at any time. A capture that changed is read again, and a file that cannot be read costs time and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder,
    UInt32Array, UInt64Builder,
};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use stallmap::code::ResultCache;
use stallmap::location::CaptureLocation;
use stallmap_schema::capture::labels::CaptureLabels;
use stallmap_schema::contained::contained;

use crate::FoundCapture;
use crate::contents::CaptureContents;
use crate::facts::CaptureFacts;

/// Number of the file's columns and their meaning. Files of another one are ignored.
const VERSION: &str = "1";
/// Maximum size of the file.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Variables of the environment that choose a server: one address is another object there.
const SERVERS: [&str; 4] = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_REGION", "AWS_DEFAULT_REGION"];

/// The catalog that an earlier command left.
pub(crate) struct StoredCatalog {
    path: Option<PathBuf>,
    /// Facts by the name of their capture, with the version of its content.
    facts: BTreeMap<String, CaptureFacts>,
    /// True if a capture was not in it, or had another version.
    is_stale: AtomicBool,
}

impl StoredCatalog {
    /// The catalog of captures in places. Empty without a cache.
    pub(crate) fn from_cache(cache: &ResultCache, places: &[CaptureLocation]) -> Self {
        let path = cache.trusted().map(|folder| folder.join("fleets").join(file_name(places)));
        let content = path.as_deref().and_then(|path| cache.read(path, MAX_FILE_BYTES));
        let read = |content: Vec<u8>| contained(|| decoded(content.into())).ok().flatten();
        let facts = content.and_then(read).unwrap_or_default();
        Self { path, facts, is_stale: AtomicBool::new(false) }
    }

    /// The stored facts about a capture, if its content has not changed.
    pub(crate) fn facts(&self, capture: &FoundCapture) -> Option<CaptureFacts> {
        let known = self.facts.get(&capture.name);
        let known =
            known.filter(|known| capture.version.is_some() && known.capture.version == capture.version);
        if known.is_none() {
            self.is_stale.store(true, Ordering::Relaxed);
        }
        known.map(|known| CaptureFacts { capture: capture.clone(), ..known.clone() })
    }

    /// Stores facts for later commands, if they differ from the stored ones. What cannot be written is read again.
    pub(crate) fn store(&self, facts: &[CaptureFacts]) {
        let Some(path) = &self.path else { return };
        if !self.is_stale.load(Ordering::Relaxed) && facts.len() == self.facts.len() {
            return;
        }
        let known: Vec<_> = facts
            .iter()
            .filter(|facts| facts.contents.is_some() && facts.capture.version.is_some())
            .collect();
        if let Ok(content) = encoded(&known) {
            drop(ResultCache::write(path, &[&content]));
        }
    }
}

/// A name for captures in places.
fn file_name(places: &[CaptureLocation]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("{VERSION} {}\n", env!("CARGO_PKG_VERSION")).as_bytes());
    for place in places {
        let real = if place.is_remote() { None } else { place.canonicalize().ok() };
        let path: &Path = real.as_deref().unwrap_or(place);
        hasher.update(path.as_os_str().as_encoded_bytes()).update(b"\n");
        // Names of captures are relative to the place as it was typed.
        hasher.update(place.as_os_str().as_encoded_bytes()).update(b"\n");
    }
    for server in SERVERS.iter().filter(|_| places.iter().any(CaptureLocation::is_remote)) {
        let value = std::env::var_os(server).unwrap_or_default();
        hasher.update(value.as_encoded_bytes()).update(b"\n");
    }
    format!("{}.parquet", hasher.finalize().to_hex())
}

fn encoded(facts: &[&CaptureFacts]) -> parquet::errors::Result<Vec<u8>> {
    let text = |value: fn(&CaptureFacts) -> Option<String>| -> ArrayRef {
        Arc::new(facts.iter().map(|facts| value(facts)).collect::<StringArray>())
    };
    let mut ids = ListBuilder::new(UInt64Builder::new());
    let mut kernels = ListBuilder::new(StringBuilder::new());
    for facts in facts {
        let functions = facts.contents.as_ref().and_then(|contents| contents.functions.as_ref());
        for (id, kernel) in functions.into_iter().flatten() {
            ids.values().append_value(*id);
            kernels.values().append_value(kernel);
        }
        ids.append(functions.is_some());
        kernels.append(functions.is_some());
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("name", text(|facts| Some(facts.capture.name.clone()))),
        ("version", text(|facts| facts.capture.version.clone())),
        ("labels", text(|facts| Some(facts.labels_text()))),
        ("rank", Arc::new(facts.iter().map(|facts| facts.rank).collect::<UInt32Array>())),
        ("host", text(|facts| facts.host.clone())),
        ("gpu", text(|facts| facts.gpu.clone())),
        ("started_ns", Arc::new(facts.iter().map(|facts| facts.started_ns).collect::<Int64Array>())),
        ("bytes", Arc::new(facts.iter().map(|facts| Some(facts.bytes)).collect::<Int64Array>())),
        ("rows", text(|facts| facts.contents.as_ref().map(CaptureContents::rows_text))),
        ("function_ids", Arc::new(ids.finish())),
        ("kernels", Arc::new(kernels.finish())),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )?;
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.into_inner()
}

/// The facts of a file. None if it is not one.
fn decoded(content: Bytes) -> Option<BTreeMap<String, CaptureFacts>> {
    let mut all = BTreeMap::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(content).ok()?.build().ok()? {
        let batch = batch.ok()?;
        for row in 0..batch.num_rows() {
            let facts = fact(&batch, row)?;
            all.insert(facts.capture.name.clone(), facts);
        }
    }
    Some(all)
}

/// The facts of one row.
fn fact(batch: &RecordBatch, row: usize) -> Option<CaptureFacts> {
    let column = |name: &str| batch.column_by_name(name).filter(|column| column.is_valid(row));
    let text = |name: &str| Some(column(name)?.as_string_opt::<i32>()?.value(row).to_owned());
    let number = |name: &str| Some(column(name)?.as_primitive_opt::<Int64Type>()?.value(row));
    let labels = text("labels")?;
    let label = |label: &str| label.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    let functions = || {
        let ids = column("function_ids")?.as_list_opt::<i32>()?.value(row);
        let kernels = column("kernels")?.as_list_opt::<i32>()?.value(row);
        let kernels =
            kernels.as_string_opt::<i32>()?.iter().map(|kernel| kernel.unwrap_or_default().to_owned());
        Some(ids.as_primitive_opt::<UInt64Type>()?.values().iter().copied().zip(kernels).collect())
    };
    let name = text("name")?;
    Some(CaptureFacts {
        // The location is that of the capture which is found under this name.
        capture: FoundCapture { location: name.as_str().into(), version: text("version"), name },
        labels: labels.split(", ").filter_map(label).collect::<CaptureLabels>(),
        rank: column("rank").and_then(|rank| Some(rank.as_primitive_opt::<UInt32Type>()?.value(row))),
        host: text("host"),
        gpu: text("gpu"),
        started_ns: number("started_ns"),
        bytes: number("bytes")?,
        contents: Some(CaptureContents {
            rows: CaptureContents::rows_of_text(&text("rows")?)?,
            functions: functions(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(name: &str, version: &str) -> CaptureFacts {
        let capture =
            FoundCapture { location: name.into(), version: Some(version.to_owned()), name: name.to_owned() };
        let contents = CaptureContents {
            rows: BTreeMap::from([("launch".to_owned(), 13)]),
            functions: Some(vec![(u64::MAX, "gemm".to_owned()), (7, "softmax".to_owned())]),
        };
        CaptureFacts {
            capture,
            labels: CaptureLabels::from([("model".to_owned(), "gpt2=xl".to_owned())]),
            rank: None,
            host: Some("h200".to_owned()),
            gpu: None,
            started_ns: Some(-5),
            bytes: 1 << 40,
            contents: Some(contents),
        }
    }

    #[test]
    fn facts_are_stored_until_their_capture_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, places) = (ResultCache::at(folder.path()), ["runs".into()]);
        let before = StoredCatalog::from_cache(&cache, &places);
        let all = [facts("a", "1"), facts("b", "1")];
        assert!(before.facts(&all[0].capture).is_none());
        before.store(&all);
        let after = StoredCatalog::from_cache(&cache, &places);
        let found = after.facts(&all[1].capture).unwrap();
        assert_eq!(format!("{found:?}"), format!("{:?}", all[1]));
        assert!(!after.is_stale.load(Ordering::Relaxed));
        assert!(after.facts(&facts("a", "2").capture).is_none());
        assert!(after.is_stale.load(Ordering::Relaxed));
        // Another place has another file, a damaged file is none, and without a cache nothing is stored.
        assert!(StoredCatalog::from_cache(&cache, &["other".into()]).facts.is_empty());
        std::fs::write(after.path.unwrap(), b"PAR1 but no more").unwrap();
        assert!(StoredCatalog::from_cache(&cache, &places).facts.is_empty());
        let none = StoredCatalog::from_cache(&ResultCache::NONE, &places);
        none.store(&all);
        assert!(none.path.is_none());
    }
}
