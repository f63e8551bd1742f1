//! Wrong accesses: the planted ones, by the marks in their programs, and none in correct programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::craft::{TableChange, crafted};
use crate::{answer, capture};
use stallmap::session::Session;

/// Captures of programs with planted defects. Every other capture is of a correct program.
const WRONG: [&str; 3] = ["sanitize/defects", "sanitize/torch", "sanitize/wrong"];

/// All captures below a folder, by their paths without the extension.
fn captures_below(folder: &Path, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join(name)).unwrap() {
        let entry = entry.unwrap();
        let path = if name.is_empty() { String::new() } else { format!("{name}/") };
        let path = path + &entry.file_name().into_string().unwrap();
        match path.strip_suffix(".stallmap") {
            Some(capture) => found.push(capture.to_owned()),
            None if entry.file_type().unwrap().is_dir() => found.extend(captures_below(folder, &path)),
            None => {}
        }
    }
    found
}

async fn rows(name: &str, sql: &str) -> Vec<String> {
    let session = Session::open(&[(None, capture(name, Path::new("")))]).unwrap();
    answer(&session, sql).await.unwrap()
}

/// The lines of a program that end in a mark, by the mark's name.
fn marks(program: &str, mark: &str) -> BTreeMap<String, usize> {
    marked(program, mark).into_iter().collect()
}

/// The names and lines of a program's marks.
fn marked(program: &str, mark: &str) -> Vec<(String, usize)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/programs").join(program);
    let text = fs::read_to_string(path).unwrap();
    let marked =
        text.lines().zip(1..).filter_map(|(text, line)| Some((text.rsplit_once(mark)?.1.to_owned(), line)));
    marked
        .filter(|(name, _)| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn correct_programs_have_no_wrong_accesses() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let mut names = captures_below(&folder, "");
    names.retain(|name| !WRONG.contains(&name.as_str()));
    assert!(names.len() >= 35, "{names:?}");
    for name in names {
        assert_eq!(rows(&name, "SELECT defect, fact FROM wrong_access").await, [""; 0], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wrong_kernel_is_found_at_its_line() {
    let sql = "SELECT DISTINCT regexp_replace(n.short_kernel, ' .*$', ''), w.source_line, w.other_source_line \
               FROM wrong_access w JOIN launch l ON l.kernel_id = w.kernel_id \
               JOIN kernel_name n ON n.function_id = l.function_id";
    let found: BTreeSet<String> = rows("sanitize/wrong", sql).await.into_iter().collect();
    let (at, with) = (marks("sanitize_truth.cu", "// at: "), marked("sanitize_truth.cu", "// with: "));
    assert_eq!(at.len(), 25);
    // Its fence may order its blocks.
    for (name, line) in at.iter().filter(|(name, _)| *name != "early_total") {
        let met = with.iter().filter(|(met, _)| met == name).map(|(_, line)| line);
        let lines: Vec<String> =
            std::iter::once(line).chain(met).map(|line| format!("sanitize_truth.cu:{line}")).collect();
        let own: Vec<&String> = found.iter().filter(|row| row.starts_with(&format!("{name} |"))).collect();
        assert!(!own.is_empty(), "{name} is not found");
        for row in own {
            let places: Vec<&str> = row.split(" | ").skip(1).filter(|place| *place != "NULL").collect();
            assert!(places.iter().all(|place| lines.iter().any(|line| line == place)), "{row}: {lines:?}");
        }
    }
    let known = |row: &&String| at.contains_key(row.split(" |").next().unwrap_or_default());
    assert_eq!(found.iter().filter(|row| !known(row)).count(), 0, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wrong_program_is_found_at_its_line() {
    let sql = "SELECT DISTINCT coalesce(source_line, regexp_replace(line, ' .*$', '')) FROM wrong_access";
    let found: BTreeSet<String> = rows("sanitize/torch", sql).await.into_iter().collect();
    let marked: BTreeSet<String> = marks("sanitize_truth.py", "# at: ")
        .values()
        .map(|line| format!("sanitize_truth.py:{line}"))
        .collect();
    assert_eq!(found, marked);
    assert_eq!(marked.len(), 12);
}

/// Launch 8 of `finding_truth` on stream 1, for a millisecond, and launch 9 on another stream or later.
fn activities(run_id: u32, stream: u32, begin_ns: i64) -> String {
    let row = |activity: u32, kernel: u32, stream: u32, begin_ns: i64, end_ns: i64| {
        format!(
            "SELECT {run_id} AS run_id, {activity} AS activity_id, 'kernel' AS kind, {kernel} AS kernel_id, NULL AS kernel_name, \
             0 AS device_id, {stream} AS stream_id, {begin_ns} AS begin_ns, {end_ns} AS end_ns, NULL AS size_bytes, \
             NULL AS copy_kind, NULL AS peer_device_id, NULL AS synchronization, NULL AS correlation_id, NULL AS op_id, \
             NULL AS call_begin_ns, NULL AS call_end_ns, NULL AS call_name, NULL AS copy_memory"
        )
    };
    let (first, second) =
        (row(0, 8, 1, FIRST_BEGIN, FIRST_END), row(1, 9, stream, begin_ns, begin_ns + 9000));
    format!("{first} UNION ALL {second}")
}

const FIRST_BEGIN: i64 = 1_795_303_011_332_714_212;
const FIRST_END: i64 = FIRST_BEGIN + 1_000_000;
const SECOND_BEGIN: i64 = FIRST_END - 200_000;

/// Storage 15, the result of launch 8, is freed before 16, that of launch 9, is allocated.
const FREED: &str = "CASE WHEN storage_id = 15 THEN 9 ELSE free_ordinal END AS free_ordinal, \
    CASE WHEN storage_id = 15 THEN 1795303011333058600 ELSE free_ns END AS free_ns";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_reused_too_early_only_by_a_stream_that_does_not_wait() {
    // Then the tensors of an op are the evidence.
    let unseen = [
        ("memory_access", "SELECT * FROM memory_access WHERE false"),
        ("launch_run", "SELECT * REPLACE (CAST(NULL AS BIGINT UNSIGNED) AS request_count) FROM launch_run"),
    ];
    let moved = format!(
        "SELECT s.* REPLACE ({FREED}, CASE WHEN storage_id = 16 THEN f.address + 1024 ELSE s.address END AS address) \
         FROM storage s CROSS JOIN (SELECT address FROM storage WHERE storage_id = 15) f"
    );
    let apart = format!("SELECT * REPLACE ({FREED}) FROM storage");
    let found = "SELECT kernel_id, stream_id, storage_id, other_kernel_id, other_stream_id, other_storage_id, byte_count, \
                 byte_offset, late_ns, evidence FROM reused_memory";
    let early = activities(1, 0, SECOND_BEGIN);
    let changes = |storages| [unseen[0], unseen[1], ("storage", storages), ("gpu_activity", early.as_str())];
    let expected = "8 | 1 | 15 | 9 | 0 | 16 | 4193280 | 1024 | 200000 | op";
    assert_eq!(crafted("finding_truth", &changes(&moved), found).await, [expected]);
    let first = "SELECT finding, line FROM finding WHERE finding_rank = 1";
    let named = crafted("finding_truth", &changes(&moved), first).await;
    assert!(named.len() == 1 && named[0].starts_with("reused_memory | finding_truth.py:"), "{named:?}");
    // An allocator that waits for the stream gives other memory.
    assert_eq!(crafted("finding_truth", &changes(&apart), found).await, [""; 0]);
    // Times of another run are of the same memory, unless the allocator waits for streams.
    let elsewhere = activities(2, 0, SECOND_BEGIN);
    let mut changes: Vec<TableChange<'_>> =
        vec![unseen[0], unseen[1], ("storage", &moved), ("gpu_activity", &elsewhere)];
    assert_eq!(crafted("finding_truth", &changes, found).await, [expected]);
    changes.push(("op", "SELECT * REPLACE ('aten::record_stream.default' AS name) FROM op"));
    assert_eq!(crafted("finding_truth", &changes, found).await, [""; 0]);
    // A stream that waits begins later. One stream has an order.
    for (run, stream, begin) in [(1, 0, FIRST_END), (1, 1, SECOND_BEGIN)] {
        let late = activities(run, stream, begin);
        let changes: [TableChange<'_>; 4] =
            [unseen[0], unseen[1], ("storage", &moved), ("gpu_activity", &late)];
        assert_eq!(crafted("finding_truth", &changes, found).await, [""; 0], "{run} {stream} {begin}");
    }
}

#[tokio::test]
async fn copies_are_misaligned_by_the_distance_of_their_ends() {
    let found = "SELECT size_bytes, common_bytes FROM misaligned_copy";
    let copied = |bytes: u32| {
        format!("SELECT * REPLACE (source + {bytes} AS source) FROM memcpy WHERE kind = 'device_to_device'")
    };
    for (bytes, expected) in [(0, None), (16, None), (8, Some(8)), (4, Some(4)), (6, Some(2)), (3, Some(1))] {
        let rows = crafted("finding_truth", &[("memcpy", &copied(bytes))], found).await;
        let common: Vec<Option<u32>> =
            rows.iter().map(|row| row.rsplit(" | ").next().unwrap().parse().ok()).collect();
        assert_eq!(common, expected.map(Some).into_iter().collect::<Vec<_>>(), "{bytes}");
    }
}

#[tokio::test]
async fn rows_of_copies_overlap_and_reach_too_far_by_their_pitch() {
    let found = "SELECT CAST(overlap_bytes AS VARCHAR) FROM overlapping_copy \
                 UNION ALL SELECT copy_end || ' ' || CAST(byte_count AS VARCHAR) FROM wide_copy ORDER BY 1";
    // 8 rows of 128 bytes in an allocation, as many as fit with their pitch, or one pitch later.
    let copied = |distance: i32, end: u32| {
        format!(
            "SELECT m.* REPLACE ('device_to_device' AS kind, a.address + 8000 - {end} AS source, \
             a.address + 8000 - {end} + {distance} AS destination, 1024 AS size_bytes, 128 AS row_bytes, \
             256 AS source_pitch, 256 AS destination_pitch, a.alloc_ns AS begin_ns) \
             FROM (SELECT * FROM memcpy LIMIT 1) m JOIN device_allocation a ON a.allocation_id = 2"
        )
    };
    let span = 7 * 256 + 128;
    let cases: [(i32, u32, &[&str]); 5] = [
        (-128, span, &[]),
        (-64, span, &["512"]),
        (-256, span, &["896"]),
        (-128, span - 28, &["source 28"]),
        (-4096, span, &[]),
    ];
    let allocation = "SELECT * REPLACE (8000 AS size_bytes) FROM device_allocation WHERE allocation_id = 2";
    for (distance, end, expected) in cases {
        let copy = copied(distance, end);
        let rows =
            crafted("sanitize/right", &[("memcpy", &copy), ("device_allocation", allocation)], found).await;
        assert_eq!(rows, expected, "{distance} {end}");
    }
}

#[tokio::test]
async fn an_access_behind_the_memory_of_its_pointer_is_out_of_bounds() {
    // The allocation is two: the second half is another's.
    let halves = "SELECT * REPLACE (CASE WHEN allocation_id = 2 THEN 512 ELSE size_bytes END AS size_bytes) FROM device_allocation \
                  UNION ALL SELECT * REPLACE (99 AS allocation_id, address + 512 AS address, 488 AS size_bytes) \
                  FROM device_allocation WHERE allocation_id = 2";
    let found =
        "SELECT kernel_id, defect, allocation_id, byte_offset, lane_count, source_line FROM out_of_bounds";
    let expected = format!(
        "0 | in other memory | 2 | 512 | 122 | sanitize_truth.cu:{}",
        marks("sanitize_truth.cu", "// at: ")["late_write"]
    );
    assert_eq!(crafted("sanitize/right", &[("device_allocation", halves)], found).await, [expected]);
}

#[tokio::test]
async fn an_access_at_an_address_that_its_bytes_do_not_divide_is_misaligned() {
    let moved = "SELECT * REPLACE (CASE WHEN kernel_id = 0 THEN address + 2 ELSE address END AS address) FROM memory_access";
    let found = "SELECT defect, kernel_id, byte_offset, count, fact FROM wrong_access";
    let expected = "alignment_fault | 0 | 2 | 250 | 250 writes of 4 bytes at addresses that are not a multiple, \
                    the lowest at byte 2 of allocation 2 (1000 bytes)";
    assert_eq!(crafted("sanitize/right", &[("memory_access", moved)], found).await, [expected]);
}

#[tokio::test]
async fn a_view_that_reaches_outside_of_its_tensor_is_wide() {
    // The slices of the program, as if they were the base tensors.
    let op = "SELECT * REPLACE (replace(name, 'aten::slice', 'aten::as_strided') AS name) FROM op";
    let tensors = "SELECT t.* REPLACE (CASE WHEN o.name NOT LIKE 'aten::slice%' THEN t.direction \
                   WHEN t.direction = 'in' THEN 'out' ELSE 'in' END AS direction) \
                   FROM op_tensor t JOIN op o ON o.op_id = t.op_id";
    let found = "SELECT regexp_replace(line, ' .*$', ''), type, view_type, element, byte_offset, byte_count FROM wide_view ORDER BY line";
    let expected = [
        "sanitize_truth.py:140 | float32 32x64 strides 128,1 | float32 32x128 | [31, 64] | 16128 | 256",
        "sanitize_truth.py:147 | float32 10x64 | float32 64x64 | [-10, 0] | -2560 | 13824",
        "sanitize_truth.py:154 | float32 70x64 | float32 80x64 | [70, 0] | 17920 | 2560",
    ];
    assert_eq!(crafted("sanitize/torch", &[("op", op), ("op_tensor", tensors)], found).await, expected);
}
