//! Writes a capture with other rows than it should have, for `scripts/campaign`: `other_rows CAPTURE OUTPUT SEED`.
//!
//! Its manifest is right: hashes, sizes and numbers of rows. One to three tables have rows that are repeated, missing, in
//! another order or with another row's value, extreme numbers, steering or long texts, or nulls. Prints what it changed.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::compute::{cast, concat_batches, interleave, take, take_record_batch};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_write::{CaptureForm, CaptureWriter};

type ExampleError = Box<dyn std::error::Error>;

/// Values for any column whose type has them.
const VALUES: [&str; 18] = [
    "0",
    "1",
    "-1",
    "255",
    "2147483647",
    "-2147483648",
    "4294967295",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e308",
    "NaN",
    "",
    "../../etc/passwd",
    "\u{1b}]0;title\u{7}\u{202e}txt\u{9b}2J\r",
    "'; DROP TABLE op; --",
    "</script><script>alert(1)</script>",
    "\u{0}",
];
/// Most rows of a changed table: the campaign runs for minutes.
const MAX_ROWS: usize = 200_000;

/// The same numbers for the same seed.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit.max(1) as u64).unwrap_or(0)
    }
}

fn main() -> Result<(), ExampleError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [capture, output, seed] = &words[..] else {
        return Err("usage: other_rows CAPTURE OUTPUT SEED".into());
    };
    let mut chance = SeededRandom(seed.parse()?);
    let reader = CaptureReader::open(Path::new(capture))?;
    let tables: Vec<_> = reader.tables().iter().filter(|table| table.rows > 0).collect();
    let changed: Vec<&str> = (0..=chance.below(3))
        .filter_map(|_| tables.get(chance.below(tables.len())))
        .map(|table| table.name.as_str())
        .collect();
    let mut writer = CaptureWriter::create(Path::new(output), CaptureForm::File)?;
    for table in reader.tables() {
        if changed.contains(&table.name.as_str()) {
            let read = reader.read_table(&table.name)?;
            let schema = Arc::clone(read.schema());
            let batches = read.collect::<Result<Vec<_>, _>>()?;
            let rows = concat_batches(&schema, &batches)?;
            let (rows, what) = other(&rows, &mut chance)?;
            println!("{}: {what}", table.name);
            writer.append(&table.name, &rows)?;
        } else {
            writer.take_table(&reader, table)?;
        }
    }
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.entry(&file.path)?)?;
    }
    writer.finish()?;
    Ok(())
}

/// Other rows, and what they are.
fn other(rows: &RecordBatch, chance: &mut SeededRandom) -> Result<(RecordBatch, String), ExampleError> {
    let count = rows.num_rows();
    let each = |select: &mut dyn FnMut(usize) -> Vec<usize>| -> Result<RecordBatch, ExampleError> {
        let indices: Vec<u64> = (0..count).flat_map(select).take(MAX_ROWS).map(|row| row as u64).collect();
        Ok(take_record_batch(rows, &UInt64Array::from(indices))?)
    };
    match chance.below(9) {
        0 => Ok((each(&mut |row| vec![row, row])?, "every row twice".into())),
        1 => {
            let times = 2 + chance.below(400);
            let chosen = chance.below(count);
            let select = &mut |row| std::iter::repeat_n(row, if row == chosen { times } else { 1 }).collect();
            Ok((each(select)?, format!("row {chosen} {times} times")))
        }
        2 => {
            let select = &mut |row| std::iter::repeat_n(row, chance.below(2)).collect();
            Ok((each(select)?, "half of the rows are gone".into()))
        }
        3 => Ok((each(&mut |_| vec![chance.below(count)])?, "rows drawn at random".into())),
        _ => other_column(rows, chance),
    }
}

/// The rows with other values in one column.
fn other_column(
    rows: &RecordBatch,
    chance: &mut SeededRandom,
) -> Result<(RecordBatch, String), ExampleError> {
    let (count, at) = (rows.num_rows(), chance.below(rows.num_columns()));
    let (schema, column) = (rows.schema(), rows.column(at));
    let name = schema.field(at).name();
    let part = 1 + chance.below(4);
    let (values, what): (ArrayRef, &str) = match chance.below(4) {
        0 => {
            let indices: Vec<u64> = (0..count).map(|_| chance.below(count) as u64).collect();
            (take(column, &UInt64Array::from(indices), None)?, "values of other rows")
        }
        1 if schema.field(at).is_nullable() => {
            let indices = (0..count).map(|row| (chance.below(part) > 0).then_some(row as u64));
            (take(column, &indices.collect::<UInt64Array>(), None)?, "nulls")
        }
        _ => {
            let long = "x/".repeat(1 << chance.below(16));
            let texts = VALUES.into_iter().chain([long.as_str()]);
            let all = cast(&StringArray::from_iter_values(texts), column.data_type())?;
            let known: Vec<usize> = (0..all.len()).filter(|&row| all.is_valid(row)).collect();
            if known.is_empty() {
                return Err("the column's type has none of the values".into());
            }
            let value = known.get(chance.below(known.len())).copied().unwrap_or(0);
            let places: Vec<(usize, usize)> =
                (0..count).map(|row| if chance.below(part) == 0 { (1, value) } else { (0, row) }).collect();
            (interleave(&[column, &all], &places)?, "an extreme value")
        }
    };
    let mut columns = rows.columns().to_vec();
    if let Some(slot) = columns.get_mut(at) {
        *slot = values;
    }
    Ok((RecordBatch::try_new(schema.clone(), columns)?, format!("{name}: {what} in a row of {part}")))
}
