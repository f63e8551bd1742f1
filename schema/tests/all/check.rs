//! Tests of `check`: each rule finds its violations.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, StringArray};
use arrow::datatypes::UInt8Type;
use parquet::arrow::ArrowWriter;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::check::CaptureRule;
use stallmap_schema::id::{KernelId, OpId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::memory::{AccessSummary, MemoryAccess};
use stallmap_schema::tables::replay::{BundleContent, BundlePage};
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::tables::tensor::Storage;
use stallmap_write::check::check;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::tiny;

/// The violations of the example after a change of one table's rows.
fn violations<R: TableRow>(change: impl FnOnce(&mut Vec<R>)) -> Vec<(CaptureRule, String)> {
    let folder = tempfile::tempdir().unwrap();
    let (sound, changed) = (folder.path().join("sound"), folder.path().join("changed"));
    tiny::write(&sound, CaptureForm::Folder).unwrap();
    let reader = CaptureReader::open(&sound).unwrap();
    let mut writer = CaptureWriter::create(&changed, CaptureForm::File).unwrap();
    for table in tables::ALL.iter().filter(|table| table.name != R::TABLE.name) {
        for batch in reader.read_table(table.name).unwrap() {
            writer.append(table.name, &batch.unwrap()).unwrap();
        }
    }
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.entry(&file.path).unwrap()).unwrap();
    }
    let mut rows = reader.read_rows::<R>().unwrap();
    change(&mut rows);
    writer.append_rows(rows).unwrap();
    writer.finish().unwrap();
    let violations = check(&CaptureReader::open(&changed).unwrap());
    violations.into_iter().map(|violation| (violation.rule, violation.what)).collect()
}

#[track_caller]
fn broken<R: TableRow>(rule: CaptureRule, what: &str, change: impl FnOnce(&mut Vec<R>)) {
    let violations = violations(change);
    assert!(violations.iter().any(|found| found.0 == rule && found.1.contains(what)), "{violations:#?}");
}

#[test]
fn a_sound_capture_has_no_violations() {
    assert_eq!(violations::<Launch>(|_| ()), []);
}

#[test]
fn a_launch_has_no_samples_of_another_kernel() {
    broken::<PcSample>(CaptureRule::Execution, "which it cannot execute", |rows| {
        // The first launch is of the other kernel.
        let of_first = rows.iter().map(|row| row.kernel_id).min().unwrap();
        let other = rows.iter().find(|row| row.kernel_id != of_first).unwrap().function_id;
        rows.iter_mut().find(|row| row.kernel_id == of_first).unwrap().function_id = other;
    });
}

/// The violations of the example after a column of the table `launch` was left out of its file.
fn without_column(column: &str) -> Vec<String> {
    rewritten::<Launch>(|batch| {
        let schema = batch.schema();
        let stored = (0..schema.fields().len()).filter(|index| schema.field(*index).name() != column);
        batch.project(&stored.collect::<Vec<_>>()).unwrap()
    })
}

/// The violations of the example after a change of the file of one table.
fn rewritten<R: TableRow>(change: impl Fn(&RecordBatch) -> RecordBatch) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (sound, changed) = (folder.path().join("sound"), folder.path().join("changed"));
    tiny::write(&sound, CaptureForm::Folder).unwrap();
    let reader = CaptureReader::open(&sound).unwrap();
    let mut writer = CaptureWriter::create(&changed, CaptureForm::File).unwrap();
    for mut file in reader.table_files().unwrap() {
        if file.name == R::TABLE.name {
            let batch = change(&R::batch(reader.read_rows().unwrap()).unwrap());
            let mut bytes = Vec::new();
            let mut table = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
            table.write(&batch).unwrap();
            table.close().unwrap();
            file.bytes = bytes.into();
        }
        writer.copy_table(&file).unwrap();
    }
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.entry(&file.path).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let violations = check(&CaptureReader::open(&changed).unwrap());
    violations.iter().map(ToString::to_string).collect()
}

#[test]
fn only_columns_of_a_later_release_may_be_missing() {
    assert_eq!(without_column("graph_id"), Vec::<String>::new());
    for column in ["grid_x", "op_id"] {
        let missing = format!("schema: column `{column}` of table `launch` is missing");
        assert!(without_column(column).contains(&missing), "{column}");
    }
}

#[test]
fn enums_have_the_values_of_the_format() {
    let with = |value: &str| {
        rewritten::<MemoryAccess>(|batch| {
            let (index, _) = batch.schema().column_with_name("kind").unwrap();
            let words = batch.column(index).as_dictionary::<UInt8Type>();
            let values = words.values().as_string::<i32>().iter();
            let values = StringArray::from_iter_values(
                values.enumerate().map(|(place, known)| if place == 0 { value } else { known.unwrap() }),
            );
            let mut columns = batch.columns().to_vec();
            columns[index] = Arc::new(words.with_values(Arc::new(values)));
            RecordBatch::try_new(batch.schema(), columns).unwrap()
        })
    };
    let unknown = "`kind` has the unknown value `tired`";
    let found = with("tired");
    assert!(found.iter().any(|violation| violation.contains(unknown)), "{found:#?}");
    let found = with("prefetch");
    assert!(!found.iter().any(|violation| violation.contains("unknown value")), "{found:#?}");
}

#[test]
fn order() {
    broken::<Launch>(CaptureRule::Order, "table `launch` is not sorted", |rows| rows.reverse());
}

#[test]
fn keys() {
    broken::<Storage>(CaptureRule::Key, "two rows of table `storage` have one key", |rows| {
        rows[1].storage_id = rows[0].storage_id;
    });
    broken::<PcSample>(CaptureRule::Key, "two rows of table `pc_sample` have one key", |rows| {
        rows.insert(0, rows[0].clone());
    });
}

#[test]
fn references() {
    broken::<Launch>(CaptureRule::Reference, "`launch.op_id` refers to 77", |rows| {
        rows[0].op_id = Some(OpId(77));
    });
    broken::<MemoryAccess>(CaptureRule::Reference, "`memory_access.kernel_id` refers to 5", |rows| {
        rows[0].kernel_id = KernelId(5);
    });
}

#[test]
fn lives() {
    broken::<Storage>(CaptureRule::Life, "`storage`: freed at 1, before", |rows| rows[1].free_ns = Some(1));
    broken::<Storage>(CaptureRule::Life, "freed at launch 1, before launch 2", |rows| {
        rows[2].free_ordinal = Some(1);
    });
}

#[test]
fn samples_are_conserved() {
    broken::<PcSample>(CaptureRule::SampleConservation, "95 samples and 4 lost are not 100", |rows| {
        rows[0].samples -= 1;
    });
    broken::<LaunchRun>(CaptureRule::SampleConservation, "96 samples, but the run counts none", |rows| {
        for row in rows {
            row.sample_count = None;
        }
    });
}

#[test]
fn accesses_are_counted() {
    broken::<MemoryAccess>(CaptureRule::AccessCount, "rows hold 3 requests of 96 lanes", |rows| {
        rows.remove(0);
    });
    broken::<LaunchRun>(CaptureRule::AccessCount, "its runs count 8 requests of 256 lanes", |rows| {
        rows[6].request_count = Some(4);
        rows[6].lane_access_count = Some(128);
    });
    broken::<MemoryAccess>(CaptureRule::AccessCount, "its lanes and their addresses do not fit", |rows| {
        rows[0].offsets = Some(vec![1]);
    });
}

#[test]
fn a_request_has_several_rows_only_where_one_has_no_room() {
    let split = |rows: &mut Vec<MemoryAccess>, distance_bytes| {
        let mut second = rows[0].clone();
        rows[0].lane_mask &= 0x0000_ffff;
        second.lane_mask &= 0xffff_0000;
        second.address.0 += distance_bytes;
        rows.insert(1, second);
    };
    broken::<MemoryAccess>(CaptureRule::AccessCount, "two rows where one has room", |rows| split(rows, 64));
    broken::<MemoryAccess>(CaptureRule::AccessCount, "two rows have one lane", |rows| {
        split(rows, 1 << 33);
        rows[1].lane_mask |= 1;
    });
}

#[test]
fn summaries_count_every_request() {
    broken::<AccessSummary>(
        CaptureRule::AccessCount,
        "its summary counts 5 requests, but its runs 4",
        |rows| {
            rows[0].request_count = 3;
        },
    );
    broken::<AccessSummary>(
        CaptureRule::AccessCount,
        "its summary counts 3 requests, but its runs 4",
        |rows| {
            rows[0].shared_request_count = 1;
        },
    );
    broken::<AccessSummary>(CaptureRule::AccessCount, "more shared requests than requests", |rows| {
        rows[0].shared_request_count = 9;
    });
    broken::<AccessSummary>(CaptureRule::AccessCount, "rows hold 2 requests, but its summary 1", |rows| {
        rows[0].request_count = 1;
        rows[1].request_count = 3;
    });
}

#[test]
fn models_are_earlier_launches_of_the_kind() {
    let of = |launch: usize, model: u64| {
        move |rows: &mut Vec<Launch>| rows[launch].accesses_of = Some(KernelId(model))
    };
    broken::<Launch>(
        CaptureRule::Model,
        "launch 0 has the accesses of launch 1, which is not earlier",
        of(0, 1),
    );
    broken::<Launch>(CaptureRule::Model, "which has another function, grid or block", of(1, 0));
    broken::<Launch>(CaptureRule::Reference, "`launch.accesses_of` refers to 77", of(1, 77));
    broken::<Launch>(
        CaptureRule::Model,
        "launch 2 has the accesses of launch 1, which has those of another",
        |rows| {
            (rows[1].accesses_of, rows[2].accesses_of) = (Some(KernelId(0)), Some(KernelId(1)));
        },
    );
}

#[test]
fn contents_have_their_hashes() {
    broken::<BundleContent>(CaptureRule::Content, "but its row states 0x", |rows| rows[0].hash ^= 1);
    broken::<BundleContent>(CaptureRule::Content, "has 4095 bytes, not 4096", |rows| {
        rows[1].bytes.0.truncate(4095);
    });
    broken::<BundlePage>(CaptureRule::Reference, "`bundle_page.content_id` refers to 5", |rows| {
        rows[0].content_id = 5;
    });
}
