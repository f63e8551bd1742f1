//! Untrusted captures: a value beyond its bound and a foreign entry are errors that name it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, UInt32Array, UInt64Array, new_null_array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::SerializedFileWriter;
use serde_json::{Value, json};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::manifest::Manifest;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::{bounds, entry, unfinished};
use stallmap_schema::check::CaptureRule;
use stallmap_schema::hash;
use stallmap_schema::id::{Address, TensorId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::python::PythonState;
use stallmap_schema::tables::run::Run;
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::tables::tensor::{Op, Storage, Tensor};
use stallmap_write::check::check;
use stallmap_write::pack::unpack;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::tiny;

/// The example with the Parquet file of one table replaced.
fn with_file(folder: &Path, table: &str, change: impl FnOnce(RecordBatch) -> Vec<u8>) -> CaptureReader {
    let (sound, changed) = (folder.join("sound"), folder.join("changed"));
    tiny::write(&sound, CaptureForm::Folder).unwrap();
    let reader = CaptureReader::open(&sound).unwrap();
    let mut writer = CaptureWriter::create(&changed, CaptureForm::File).unwrap();
    let batch = reader.read_table(table).unwrap().next().unwrap().unwrap();
    let bytes = change(batch);
    for mut file in reader.table_files().unwrap() {
        if file.name == table {
            let new = SerializedFileReader::new(bytes::Bytes::from(bytes.clone())).unwrap();
            file.rows = u64::try_from(new.metadata().file_metadata().num_rows()).unwrap();
            file.bytes = bytes.clone().into();
        }
        writer.copy_table(&file).unwrap();
    }
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.entry(&file.path).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    CaptureReader::open(&changed).unwrap()
}

fn with_rows<R: TableRow>(folder: &Path, change: impl FnOnce(&mut Vec<R>)) -> CaptureReader {
    with_file(folder, R::TABLE.name, |batch| {
        let mut rows = R::read_all(&batch).unwrap();
        change(&mut rows);
        parquet(&R::batch(rows).unwrap())
    })
}

fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// A batch with one column replaced, which may have nulls.
fn with_column(batch: &RecordBatch, column: &str, array: ArrayRef) -> RecordBatch {
    let fields = batch.schema().fields().iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>();
    let fields = fields.into_iter().map(|field| field.with_nullable(true)).collect::<Vec<_>>();
    let index = batch.schema().index_of(column).unwrap();
    let mut columns = batch.columns().to_vec();
    columns[index] = array;
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// A batch with one more column.
fn with_new_column(batch: &RecordBatch, column: &str, array: ArrayRef) -> RecordBatch {
    let mut fields = batch.schema().fields().to_vec();
    fields.push(Arc::new(Field::new(column, array.data_type().clone(), true)));
    let columns = batch.columns().iter().cloned().chain([array]).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// The reader's error, and the same from `check`.
#[track_caller]
fn refused(reader: &CaptureReader, table: &str, what: &[&str]) {
    let read = reader.read_table(table).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let error = read.unwrap_err().to_string();
    let listed: Vec<String> = check(reader).iter().map(ToString::to_string).collect();
    for part in what {
        assert!(error.contains(part), "`{part}` is not in {error}");
        assert!(listed.iter().any(|line| line.contains(part)), "`{part}` is not in {listed:#?}");
    }
}

#[test]
fn a_value_beyond_its_bound_is_named_with_its_row() {
    let folder = || tempfile::tempdir().unwrap();
    let of_tensor = folder();
    let reader = with_rows::<Tensor>(of_tensor.path(), |rows| rows[1].sizes = vec![1; 10_000]);
    refused(&reader, "tensor", &["row 1 of `tensor`", "`sizes` has 10000 values", "the bound is 64"]);
    let of_function = folder();
    let long = "f".repeat(bounds::TEXT_BYTES + 1);
    let reader = with_rows::<Function>(of_function.path(), |rows| rows[0].demangled_name = long);
    refused(&reader, "function", &["row 0 of `function`", "`demangled_name` has 65537 bytes", "65536"]);
    let of_state = folder();
    let reader = with_rows::<PythonState>(of_state.path(), |rows| {
        let state = rows[0].clone();
        rows.extend((1_000..20_000).map(|depth| PythonState { depth, ..state.clone() }));
    });
    refused(&reader, "python_state", &["`depth` has the value 8192", "the bound is 8192"]);
    let of_op = folder();
    let reader = with_rows::<Op>(of_op.path(), |rows| rows[0].module_path = Some("a.".repeat(20_000)));
    refused(&reader, "op", &["row 0 of `op`: `module_path` has more than 1024 parts"]);
}

#[test]
fn a_number_that_no_program_reaches_is_named() {
    let cases: [(&str, &str, ArrayRef, &str); 4] = [
        ("launch_run", "begin_ns", Arc::new(Int64Array::from(vec![i64::MIN])), "-9223372036854775808"),
        ("memory_access", "stride_bytes", Arc::new(Int32Array::from(vec![i32::MIN])), "-2147483648"),
        ("pc_sample", "samples", Arc::new(UInt64Array::from(vec![u64::MAX])), "18446744073709551615"),
        ("counter", "value", Arc::new(Float64Array::from(vec![f64::NAN])), "NaN"),
    ];
    for (table, column, value, text) in cases {
        let folder = tempfile::tempdir().unwrap();
        let reader = with_file(folder.path(), table, |batch| {
            let values = take(&value, &UInt32Array::from(vec![0; batch.num_rows()]), None).unwrap();
            parquet(&with_column(&batch, column, values))
        });
        let expected = format!("row 0 of `{table}`: `{column}` has the value {text}, and the bound is");
        refused(&reader, table, &[&expected]);
    }
}

#[test]
fn a_number_that_a_null_hides_is_not_looked_at() {
    let hidden = Int32Array::new(vec![i32::MIN].into(), Some(vec![false].into()));
    let schema = Schema::new(vec![Field::new("stride_bytes", DataType::Int32, true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(hidden)]).unwrap();
    assert_eq!(bounds::check("memory_access", &batch, 0), Ok(()));
}

#[test]
fn views_are_nested_up_to_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let views = |deep: u64, first: Option<u64>| {
        move |rows: &mut Vec<Tensor>| {
            let tensor = rows[0].clone();
            rows.extend((0..deep).map(|index| Tensor {
                tensor_id: TensorId(1_000_000 + index),
                base_tensor_id: index.checked_sub(1).map(|base| 1_000_000 + base).or(first).map(TensorId),
                ..tensor.clone()
            }));
        }
    };
    let listed = |reader: &CaptureReader| check(reader).iter().map(ToString::to_string).collect::<Vec<_>>();
    let (sound, deep, circle) = (folder.path().join("0"), folder.path().join("1"), folder.path().join("2"));
    for path in [&sound, &deep, &circle] {
        fs::create_dir(path).unwrap();
    }
    assert_eq!(listed(&with_rows(&sound, views(1_025, None))), [""; 0]);
    let found = listed(&with_rows(&deep, views(60_000, None)));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("is more than 1024 views deep, which is the bound"), "{found:?}");
    assert_eq!(listed(&with_rows(&circle, views(500, Some(1_000_499)))), [""; 0]);
}

#[test]
fn check_lists_times_that_end_before_they_begin() {
    let folder = tempfile::tempdir().unwrap();
    let reader = with_rows::<Op>(folder.path(), |rows| {
        rows[0].end_ns = None;
        rows[1].end_ns = Some(rows[1].begin_ns - 1);
    });
    let listed: Vec<String> = check(&reader).iter().map(ToString::to_string).collect();
    let expected = "lifetime: row 1 of table `op` ends at ";
    assert_eq!(listed.iter().filter(|line| line.starts_with(expected)).count(), 1, "{listed:#?}");
    assert_eq!(listed.len(), 1, "{listed:#?}");
}

#[test]
fn check_lists_an_op_within_itself() {
    let listed = |parents: &[(usize, usize)]| {
        let folder = tempfile::tempdir().unwrap();
        let reader = with_rows::<Op>(folder.path(), |rows| {
            for (op, parent) in parents {
                rows[*op].parent_op_id = Some(rows[*parent].op_id);
            }
        });
        check(&reader).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[(1, 0), (2, 1)]), [""; 0]);
    for circle in [&[(0, 0)][..], &[(0, 1), (1, 0)], &[(0, 1), (1, 2), (2, 1)]] {
        let listed = listed(circle);
        assert_eq!(listed.len(), 1, "{circle:?}: {listed:#?}");
        assert!(
            listed[0].starts_with("reference: op ") && listed[0].ends_with(" is within itself"),
            "{listed:#?}"
        );
    }
}

#[test]
fn check_lists_memory_that_ends_beyond_all_addresses() {
    let listed = |address: u64| {
        let folder = tempfile::tempdir().unwrap();
        let reader = with_rows::<Storage>(folder.path(), |rows| rows[0].address = Address(address));
        check(&reader).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let found = listed(u64::MAX);
    let is_listed =
        |line: &String| line.starts_with("schema: row 0 of table `storage`: ") && line.ends_with("2^64");
    assert!(found.iter().any(is_listed), "{found:#?}");
    let found = listed(u64::MAX - (1 << 40));
    assert!(!found.iter().any(is_listed), "{found:#?}");
}

#[test]
fn columns_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let reader = with_file(folder.path(), Op::TABLE.name, |batch| {
        let mut fields = batch.schema().fields().to_vec();
        fields
            .extend((0..2_000).map(|index| Arc::new(Field::new(format!("c{index}"), DataType::Int8, true))));
        let nulls = new_null_array(&DataType::Int8, batch.num_rows());
        let columns = batch.columns().iter().cloned().chain(std::iter::repeat_n(nulls, 2_000));
        parquet(&RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.collect()).unwrap())
    });
    refused(&reader, "op", &["columns, and the bound is 1024"]);
}

#[test]
fn values_at_their_bounds_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let name = "f".repeat(bounds::TEXT_BYTES);
    let reader = with_rows::<Function>(folder.path(), |rows| rows[0].demangled_name = name);
    assert_eq!(reader.read_rows::<Function>().unwrap()[0].demangled_name.len(), bounds::TEXT_BYTES);
    assert_eq!(check(&reader), []);
}

#[test]
fn a_page_that_would_unpack_to_much_memory_is_not_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let reader = with_file(folder.path(), Run::TABLE.name, |batch| {
        let text: ArrayRef =
            Arc::new(StringArray::from(vec!["x".repeat(130 << 20); batch.num_rows().min(1)]));
        let one = batch.slice(0, 1);
        let properties = WriterProperties::builder()
            .set_compression(parquet::basic::Compression::ZSTD(parquet::basic::ZstdLevel::default()))
            .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None);
        let batch = with_column(&one, "arguments", text);
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        bytes
    });
    assert!(fs::metadata(reader.path()).unwrap().len() < 1 << 20, "the file is small");
    refused(&reader, "run", &["column `arguments`: a page has", "the bound is 134217728"]);
}

#[test]
fn values_of_a_large_fixed_length_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let reader = with_file(folder.path(), PcSample::TABLE.name, |batch| {
        let long: ArrayRef = Arc::new(
            FixedSizeBinaryArray::try_from_iter(vec![vec![0_u8; 33]; batch.num_rows()].into_iter()).unwrap(),
        );
        parquet(&with_new_column(&batch, "extra", long))
    });
    refused(&reader, "pc_sample", &["column `extra`: each value has 33 bytes, and the bound is 32"]);
    let folder = tempfile::tempdir().unwrap();
    let reader = with_file(folder.path(), PcSample::TABLE.name, |batch| {
        let numbers =
            Decimal128Array::from(vec![1; batch.num_rows()]).with_precision_and_scale(38, 2).unwrap();
        parquet(&with_new_column(&batch, "extra", Arc::new(numbers)))
    });
    assert!(reader.read_table(PcSample::TABLE.name).unwrap().all(|batch| batch.is_ok()));
}

#[test]
fn a_list_of_more_values_than_all_rows_may_have_is_not_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let reader = with_rows::<Tensor>(folder.path(), |rows| {
        rows.truncate(1);
        rows[0].sizes = vec![1; bounds::LIST_VALUES + 1];
    });
    let expected = "its lists have 65537 values in 1 rows, and the bound is 65536";
    refused(&reader, "tensor", &["column `sizes.", expected]);
}

#[test]
fn check_lists_nulls_where_there_must_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let reader = with_file(folder.path(), Module::TABLE.name, |batch| {
        let nulls = new_null_array(&DataType::Utf8, batch.num_rows());
        parquet(&with_column(&batch, "content_hash", nulls))
    });
    let listed: Vec<String> = check(&reader).iter().map(ToString::to_string).collect();
    let expected = "schema: row 0 of table `module`: `content_hash` is null";
    assert!(listed.iter().any(|line| line == expected), "{listed:#?}");
}

#[test]
fn check_stops_reading_a_table_of_repeated_keys() {
    let folder = tempfile::tempdir().unwrap();
    let reader = with_rows::<LaunchRun>(folder.path(), |rows| *rows = vec![rows[0].clone(); 50_000]);
    let listed: Vec<String> = check(&reader).iter().map(ToString::to_string).collect();
    assert!(
        listed.iter().any(|line| line.starts_with("not checked: rows of table `launch_run`")),
        "{listed:#?}"
    );
    assert!(listed.len() < 30, "{listed:#?}");
}

/// A file whose first row group states another greatest value of a column of 64 bits.
fn lying(file: &[u8], column: &str) -> Vec<u8> {
    let reader = SerializedFileReader::new(bytes::Bytes::copy_from_slice(file)).unwrap();
    let metadata = reader.metadata();
    let schema = metadata.file_metadata().schema_descr().root_schema_ptr();
    let mut properties = WriterProperties::builder();
    let pairs = metadata.file_metadata().key_value_metadata().cloned();
    properties = properties.set_key_value_metadata(pairs);
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties.build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let group_metadata = metadata.row_group(0);
    for chunk in group_metadata.columns() {
        let mut new = chunk.clone().into_builder();
        if chunk.column_path().string() == column {
            let lie = ValueStatistics::new(Some(1_i64), Some(9_i64), None, Some(0), false);
            new = new.set_statistics(Statistics::Int64(lie));
        }
        let result = parquet::column::writer::ColumnCloseResult {
            bytes_written: u64::try_from(chunk.compressed_size()).unwrap(),
            rows_written: u64::try_from(group_metadata.num_rows()).unwrap(),
            metadata: new.build().unwrap(),
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        group.append_column(&bytes::Bytes::copy_from_slice(file), result).unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn check_compares_statistics_with_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let reader = with_file(folder.path(), PcSample::TABLE.name, |batch| lying(&parquet(&batch), "samples"));
    let violations = check(&reader);
    let found: Vec<String> = violations
        .iter()
        .filter(|violation| violation.rule == CaptureRule::Statistics)
        .map(|violation| violation.what.clone())
        .collect();
    assert_eq!(found, ["column `samples` of table `pc_sample` has other values than its file states"]);
}

/// The example as a folder whose manifest was edited.
fn with_manifest(folder: &Path, change: impl FnOnce(&mut Value)) -> Result<CaptureReader, CaptureError> {
    let path = folder.join("capture");
    tiny::write(&path, CaptureForm::Folder).unwrap();
    let manifest = path.join(entry::MANIFEST);
    let mut json: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    change(&mut json);
    fs::write(&manifest, json.to_string()).unwrap();
    CaptureReader::open(&path)
}

#[track_caller]
fn refused_file(name: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let hash = blake3::hash(b"").to_hex().to_string();
    let opened = with_manifest(folder.path(), |manifest| {
        let file = json!({"path": name, "bytes": 0, "blake3": hash});
        manifest["files"].as_array_mut().unwrap().push(file);
    });
    let error = opened.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_manifest_lists_tables_and_cubins_only() {
    for name in [".git/config", "notes.txt", "tables/.x.parquet", "tables", "cubins/a/b.cubin.zst", ".envrc"]
    {
        refused_file(name, "a capture holds tables and cubins only");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny");
    let cubin = tiny::write(&path, CaptureForm::Folder).unwrap().files[0].path.clone();
    let other = cubin.replace(".cubin.zst", "").to_uppercase().replace("CUBINS/", "cubins/") + ".cubin.zst";
    refused_file(&other, "differ only by case");
    refused_file(&cubin, "twice");
}

#[test]
fn a_zip_file_with_other_entries_is_not_unpacked() {
    use std::io::Write as _;

    let folder = tempfile::tempdir().unwrap();
    let (capture, output) = (folder.path().join("capture"), folder.path().join("out"));
    tiny::write(&capture, CaptureForm::File).unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(&capture).unwrap();
    let mut zip = zip::ZipWriter::new_append(file).unwrap();
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file(".git/config", stored).unwrap();
    zip.write_all(b"[core]\n\tfsmonitor = touch pwned\n").unwrap();
    zip.finish().unwrap();
    let unpacked = CaptureReader::open(&capture).and_then(|reader| unpack(&reader, &output));
    let error = unpacked.unwrap_err().to_string();
    assert!(error.contains(".git/config") && !output.exists(), "{error}");
}

#[test]
fn a_capture_that_fails_its_inspection_is_never_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("capture");
    let writer = CaptureWriter::create(&output, CaptureForm::File).unwrap();
    let inspected = writer.finish_inspected(|written| {
        assert!(!output.exists() && written.tables().len() > 20, "it is complete, and not in place");
        Err(CaptureError::Refused { thing: "x".to_owned(), cause: "y".to_owned(), path: output.clone() })
    });
    assert!(inspected.is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_is_unfinished_is_known_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("capture");
    let writer = CaptureWriter::create(&output, CaptureForm::File).unwrap();
    let staging = CaptureWriter::staging(&output);
    assert!(unfinished::is_listed(&staging));
    writer.finish().unwrap();
    assert!(!unfinished::is_listed(&staging));
}

#[test]
fn many_files_are_listed_in_linear_time() {
    let folder = tempfile::tempdir().unwrap();
    let files = (0..20_000).map(|number: u64| {
        let path = entry::cubin(&format!("{:016x}", hash::content_hash(&number.to_le_bytes())));
        json!({"path": path, "bytes": 0, "blake3": ""})
    });
    let opened = with_manifest(folder.path(), |manifest| manifest["files"] = files.collect());
    // None of them is there.
    assert!(matches!(opened, Err(CaptureError::MissingEntry { .. })));
}

#[test]
fn a_manifest_of_this_release_passes_its_own_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture");
    let manifest: Manifest = tiny::write(&path, CaptureForm::Folder).unwrap();
    assert!(manifest.entries().all(|(name, ..)| entry::is_allowed(&name)));
}
