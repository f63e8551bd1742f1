//! Files that state other things of their rows than their rows: answers are those of the rows, or errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::UInt64Array;
use arrow::compute::take;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::SerializedFileWriter;
use stallmap::error::AnalyzeError;
use stallmap::session::Session;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::{answer, tiny};

/// The example with another file of `pc_sample`, under a right manifest.
fn with_samples(folder: &Path, change: impl FnOnce(Bytes) -> Vec<u8>) -> PathBuf {
    let [sound, changed] = ["sound", "changed"].map(|name| folder.join(name));
    tiny::write(&sound, CaptureForm::Folder).unwrap();
    let reader = CaptureReader::open(&sound).unwrap();
    let mut writer = CaptureWriter::create(&changed, CaptureForm::File).unwrap();
    let new = Bytes::from(change(fs::read(sound.join("tables/pc_sample.parquet")).unwrap().into()));
    for mut file in reader.table_files().unwrap() {
        if file.name == "pc_sample" {
            file.bytes = new.clone().into();
        }
        writer.copy_table(&file).unwrap();
    }
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.entry(&file.path).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    changed
}

/// A file with the chunks of another one, which states extremes of a column and a number of rows.
fn lying(file: &Bytes, column: &str, extremes: [i64; 2], more_rows: u64) -> Vec<u8> {
    let reader = SerializedFileReader::new(file.clone()).unwrap();
    let metadata = reader.metadata();
    let [group] = metadata.row_groups() else { panic!("one row group") };
    let properties = WriterProperties::builder()
        .set_key_value_metadata(metadata.file_metadata().key_value_metadata().cloned())
        .set_sorting_columns(group.sorting_columns().cloned());
    let schema = metadata.file_metadata().schema_descr().root_schema_ptr();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties.build())).unwrap();
    let mut new = writer.next_row_group().unwrap();
    for chunk in group.columns() {
        let mut stated = chunk.clone().into_builder();
        if chunk.column_path().string() == column {
            let [least, most] = extremes.map(Some);
            stated = stated.set_statistics(Statistics::Int64(ValueStatistics::new(
                least,
                most,
                None,
                Some(0),
                false,
            )));
        }
        let closed = ColumnCloseResult {
            bytes_written: chunk.compressed_size().try_into().unwrap(),
            rows_written: u64::try_from(group.num_rows()).unwrap() + more_rows,
            metadata: stated.build().unwrap(),
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        new.append_column(file, closed).unwrap();
    }
    new.close().unwrap();
    writer.close().unwrap();
    bytes
}

/// The rows of a file in the reverse order, which the file states to be sorted.
fn reversed(file: Bytes) -> Vec<u8> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let sorting = reader.metadata().row_group(0).sorting_columns().cloned();
    assert!(sorting.is_some());
    let schema = reader.schema().clone();
    let batch = reader.build().unwrap().next().unwrap().unwrap();
    let places = UInt64Array::from_iter_values((0..batch.num_rows() as u64).rev());
    let columns = batch.columns().iter().map(|column| take(column, &places, None).unwrap()).collect();
    let mut bytes = Vec::new();
    let properties = WriterProperties::builder().set_sorting_columns(sorting).build();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema.clone(), Some(properties)).unwrap();
    writer.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    writer.close().unwrap();
    bytes
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}

fn asked(path: &Path, sql: &str) -> Result<Vec<RecordBatch>, AnalyzeError> {
    let session = Session::open(&[(None, path.to_owned())])?;
    runtime().block_on(async { Ok(session.sql(sql).await?.collect().await?) })
}

#[test]
fn extremes_that_a_file_states_change_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let sound = folder.path().join("sound");
    let capture = with_samples(folder.path(), |file| lying(&file, "samples", [1, 1], 0));
    let session = |path: &Path| Session::open(&[(None, path.to_owned())]).unwrap();
    println!(
        "{:?}",
        asked(&capture, "EXPLAIN SELECT max(samples), min(samples), count(samples) FROM pc_sample")
    );
    for sql in [
        "SELECT max(samples), min(samples), count(samples) FROM pc_sample",
        "SELECT sum(samples) FROM pc_sample WHERE samples > 1",
        "SELECT kernel_id, pc, samples FROM pc_sample WHERE samples = (SELECT max(samples) FROM pc_sample) ORDER BY pc",
    ] {
        let of = |path: &Path| runtime().block_on(answer(&session(path), sql)).unwrap();
        let expected = of(&sound);
        assert!(expected.iter().any(|row| !row.contains("NULL")), "{expected:?}");
        assert_eq!(of(&capture), expected, "{sql}");
    }
}

#[test]
fn false_extremes_of_the_sorted_column_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let capture = with_samples(folder.path(), |file| lying(&file, "kernel_id", [1 << 40, 1 << 41], 0));
    let error = asked(&capture, "SELECT count(*) FROM pc_sample WHERE kernel_id < 1000").unwrap_err();
    let expected =
        "table `pc_sample` cannot be read: column `kernel_id` has other values than its file states";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_false_number_of_rows_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let capture = with_samples(folder.path(), |file| lying(&file, "samples", [1, 1], 5));
    let error = asked(&capture, "SELECT count(*) FROM pc_sample").unwrap_err().to_string();
    assert!(error.contains("its pages have ") && error.contains(", and the file states "), "{error}");
}

#[test]
fn rows_in_another_order_than_stated_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let capture = with_samples(folder.path(), reversed);
    let sql = "SELECT kernel_id, function_id, pc, stall_reason, samples FROM pc_sample";
    let error = asked(&capture, sql).unwrap_err().to_string();
    assert!(error.contains("table `pc_sample` cannot be read: its rows are not in its order"), "{error}");
}
