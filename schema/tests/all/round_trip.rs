//! Round trip of every table and every value that its columns can hold.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, DictionaryArray, Float64Builder, Int32Builder, Int64Builder,
    ListBuilder, RecordBatch, StringArray, StringBuilder, UInt8Array, UInt8Builder, UInt16Builder,
    UInt32Builder, UInt64Builder,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, UInt8Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use proptest::prelude::*;
use stallmap_schema::capture::bounds;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::check::CaptureRule;
use stallmap_schema::table::{ColumnDef, TableDef, TableRow as _};
use stallmap_schema::tables;
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_write::{CaptureForm, CaptureWriter};

/// Values of a column: anything that its type can hold, nulls where it may.
fn column(def: &ColumnDef, seeds: &[u64]) -> ArrayRef {
    let cells: Vec<Option<u64>> =
        seeds.iter().map(|seed| (!def.nullable || seed % 3 > 0).then_some(*seed)).collect();
    macro_rules! numbers {
        ($builder:ident, $type:ty) => {{
            let mut builder = $builder::new();
            for cell in &cells {
                builder.append_option(cell.map(|seed| seed as $type));
            }
            Arc::new(builder.finish())
        }};
    }
    macro_rules! lists {
        ($builder:ident, $type:ty) => {{
            let mut builder = ListBuilder::new($builder::new());
            for cell in &cells {
                let length = cell.unwrap_or(0) % 5;
                builder.values().append_slice(&vec![cell.unwrap_or(0) as $type; length as usize]);
                builder.append(cell.is_some());
            }
            Arc::new(builder.finish())
        }};
    }
    match (def.data_type)() {
        DataType::UInt8 => numbers!(UInt8Builder, u8),
        DataType::UInt16 => numbers!(UInt16Builder, u16),
        DataType::UInt32 => numbers!(UInt32Builder, u32),
        DataType::UInt64 => numbers!(UInt64Builder, u64),
        DataType::Int32 => numbers!(Int32Builder, i32),
        DataType::Int64 => numbers!(Int64Builder, i64),
        DataType::Float64 => numbers!(Float64Builder, f64),
        DataType::Boolean => {
            let mut builder = BooleanBuilder::new();
            for cell in &cells {
                builder.append_option(cell.map(|seed| seed & 1 == 1));
            }
            Arc::new(builder.finish())
        }
        DataType::Utf8 => {
            let mut builder = StringBuilder::new();
            for cell in &cells {
                builder.append_option(cell.map(|seed| format!("é{seed:x}")));
            }
            Arc::new(builder.finish())
        }
        DataType::Binary => {
            let mut builder = BinaryBuilder::new();
            for cell in &cells {
                builder.append_option(cell.map(u64::to_le_bytes));
            }
            Arc::new(builder.finish())
        }
        DataType::Dictionary(..) => {
            let keys: UInt8Array = cells.iter().map(|cell| cell.map(|seed| (seed % 2) as u8)).collect();
            let words = Arc::new(StringArray::from(vec!["one", "other"]));
            Arc::new(DictionaryArray::<UInt8Type>::try_new(keys, words).unwrap())
        }
        DataType::List(item) => match item.data_type() {
            DataType::UInt32 => lists!(UInt32Builder, u32),
            DataType::UInt64 => lists!(UInt64Builder, u64),
            DataType::Int64 => lists!(Int64Builder, i64),
            other => panic!("no lists of {other} so far"),
        },
        other => panic!("no columns of {other} so far"),
    }
}

fn batch(table: &TableDef, seeds: &[u64]) -> RecordBatch {
    let columns = table.columns.iter().zip(1..).map(|(def, salt)| {
        let end = match (def.data_type)() {
            // A stack is never deeper.
            DataType::UInt32 if def.name == "depth" => 8_192,
            DataType::UInt64 if !bounds::is_amount(def.name) => u64::MAX,
            _ => bounds::AMOUNT,
        };
        let seeds: Vec<_> = seeds.iter().map(|seed| seed.wrapping_mul(salt) % end).collect();
        column(def, &seeds)
    });
    RecordBatch::try_new(table.schema(), columns.collect()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_table_comes_back(seeds in proptest::collection::vec(any::<u64>(), 0..200), cut in 0..200_usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.stallmap");
        let mut writer = CaptureWriter::create(&path, CaptureForm::File).unwrap();
        let (first, second) = seeds.split_at(cut.min(seeds.len()));
        for table in tables::ALL {
            writer.append(table.name, &batch(table, first)).unwrap();
            writer.append(table.name, &batch(table, second)).unwrap();
        }
        writer.finish().unwrap();
        let reader = CaptureReader::open(&path).unwrap();
        for table in tables::ALL {
            comes_back(&reader, table, &seeds)?;
        }
    }

    #[test]
    fn rows_that_repeat_come_back(runs in proptest::collection::vec((any::<u64>(), 1..9_000_usize), 1..12)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.stallmap");
        let seeds: Vec<u64> = runs.iter().flat_map(|(seed, rows)| vec![*seed; *rows]).collect();
        // Numbers of every width and sign, words, and nulls.
        let repeating = [&MemoryAccess::TABLE, &GpuActivity::TABLE, &LaunchRun::TABLE];
        let mut writer = CaptureWriter::create(&path, CaptureForm::File).unwrap();
        for table in repeating {
            for some in seeds.chunks(5_000) {
                writer.append(table.name, &batch(table, some)).unwrap();
            }
        }
        writer.finish().unwrap();
        let reader = CaptureReader::open(&path).unwrap();
        for table in repeating {
            comes_back(&reader, table, &seeds)?;
        }
        let wrong = stallmap_write::check::check(&reader).into_iter().filter(|wrong| wrong.rule == CaptureRule::Statistics);
        prop_assert_eq!(wrong.map(|wrong| wrong.what).collect::<Vec<_>>(), Vec::<String>::new());
    }

    #[test]
    fn rows_that_count_on_come_back(
        (start, step) in (any::<u64>(), prop_oneof![0..5_u64, any::<u64>()]),
        (rows, repeat) in (1..40_000_u64, 1..40_u64),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers.stallmap");
        let seeds: Vec<u64> = (0..rows).map(|row| start.wrapping_add((row / repeat).wrapping_mul(step))).collect();
        let table = &MemoryAccess::TABLE;
        let mut writer = CaptureWriter::create(&path, CaptureForm::File).unwrap();
        for some in seeds.chunks(7_000) {
            writer.append(table.name, &batch(table, some)).unwrap();
        }
        writer.finish().unwrap();
        let reader = CaptureReader::open(&path).unwrap();
        comes_back(&reader, table, &seeds)?;
        let wrong = stallmap_write::check::check(&reader).into_iter().filter(|wrong| wrong.rule == CaptureRule::Statistics);
        prop_assert_eq!(wrong.map(|wrong| wrong.what).collect::<Vec<_>>(), Vec::<String>::new());
    }
}

/// Checks that a table holds the rows of these seeds.
fn comes_back(reader: &CaptureReader, table: &TableDef, seeds: &[u64]) -> Result<(), TestCaseError> {
    let batches = reader.read_table(table.name).unwrap();
    let schema = batches.schema().clone();
    let read = concat_batches(&schema, &batches.collect::<Result<Vec<_>, _>>().unwrap()).unwrap();
    let declared = table.schema();
    prop_assert_eq!(schema.fields(), declared.fields());
    let written = batch(table, seeds);
    for (def, (read, written)) in table.columns.iter().zip(read.columns().iter().zip(written.columns())) {
        // Words may come back under other codes.
        let (read, written) = match (def.data_type)() {
            DataType::Dictionary(..) => (plain(read), plain(written)),
            _ => (read.clone(), written.clone()),
        };
        prop_assert_eq!(&read, &written, "column {} of {}", def.name, table.name);
    }
    Ok(())
}

#[test]
fn constant_columns_are_not_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("constant.stallmap");
    let mut writer = CaptureWriter::create(&path, CaptureForm::File).unwrap();
    let table = &MemoryAccess::TABLE;
    writer.append(table.name, &batch(table, &vec![7; 40_000])).unwrap();
    writer.finish().unwrap();
    let reader = CaptureReader::open(&path).unwrap();
    let entry = reader.table_entry(table.name).unwrap().clone();
    let file = ParquetRecordBatchReaderBuilder::try_new(entry).unwrap();
    let columns = file.metadata().row_group(0).columns();
    let large = columns.iter().filter(|column| column.compression() != Compression::UNCOMPRESSED);
    assert_eq!(large.map(|column| column.column_path().string()).collect::<Vec<_>>(), ["offsets.list.item"]);
    assert!(
        columns
            .iter()
            .all(|column| column.num_values() == 40_000
                || column.column_path().string() == "offsets.list.item")
    );
}

fn plain(words: &ArrayRef) -> ArrayRef {
    arrow::compute::cast(words, &DataType::Utf8).unwrap()
}
