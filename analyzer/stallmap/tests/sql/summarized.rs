//! Captures whose accesses were counted on the GPU, recorded in part, or stand in another launch: the same answers as
//! with all accesses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use stallmap::redact::{KeptData, RedactOptions, redact};
use stallmap::session::Session;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::{Address, KernelId};
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_testkit::summarized::{AccessTables, SummaryParts};
use stallmap_write::CaptureForm;
use stallmap_write::check::check;

use crate::{answer, tiny};

const ALL_ROWS: SummaryParts = SummaryParts { every_block: 1, has_summary: true, refers: false };
const QUARTER: SummaryParts = SummaryParts { every_block: 4, has_summary: true, refers: false };
const REFERRING: SummaryParts = SummaryParts { every_block: 4, has_summary: true, refers: true };
const WITHOUT_SUMMARY: SummaryParts = SummaryParts { every_block: 1, has_summary: false, refers: true };

/// Answers that stay the same, but for the evidence. Each row begins with the instruction that accesses.
const PARTS: &str = "SELECT kernel_id, function_id, pc, kind, space, target, storage_id, tensor_id, allocation_id, \
    request_count, lane_count, sectors, unique_bytes, ideal_sectors FROM pc_tensor";
const SHARES: &str = "SELECT kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id, round(share, 9) \
    FROM pc_tensor_share";
const CHARGES: &str = "SELECT kernel_id, producer_function_id, producer_pc, function_id, pc, stall_reason, charge, \
    target, storage_id, tensor_id, allocation_id, round(samples, 6) FROM stall_charge";
/// Charges of stalls with one producer: shares of several depend on the levels of memory that rows show.
const SINGLE_CHARGES: &str = "SELECT c.kernel_id, c.producer_function_id, c.producer_pc, c.function_id, c.pc, \
    c.stall_reason, c.charge, c.target, c.storage_id, c.tensor_id, c.allocation_id, round(c.samples, 6) \
    FROM stall_charge c LEFT ANTI JOIN (SELECT function_id, pc, stall_reason FROM producer \
    GROUP BY function_id, pc, stall_reason HAVING count(*) > 1) m \
    ON m.function_id = c.function_id AND m.pc = c.pc AND m.stall_reason = c.stall_reason";
/// Instructions with several targets in one storage: a sample of blocks shares their accesses.
const SHARING: &str = "SELECT DISTINCT kernel_id, function_id, pc FROM pc_tensor WHERE storage_id IS NOT NULL \
    GROUP BY kernel_id, function_id, pc, kind, space, storage_id HAVING count(*) > 1";
const COSTS: &str = "SELECT charge, tensor_id, round(sum(samples), 6) FROM tensor_stall_cost GROUP BY 1, 2";
/// The same for every variant.
const LANES: &str =
    "SELECT kernel_id, function_id, pc, kind, space, sum(lane_count) FROM pc_tensor GROUP BY 1, 2, 3, 4, 5";

/// Patterns of requests, which the GPU counts by shape.
const PATTERNS: [&str; 2] = ["SELECT * FROM request_pattern", "SELECT * FROM sector_histogram"];

/// A capture, with all its accesses and with a part of them.
struct CapturePair {
    original: Session,
    crafted: Session,
    /// Launches that refer to others.
    references: usize,
}

impl CapturePair {
    fn new(name: &str, how: SummaryParts, folder: &Path) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/{name}.stallmap"));
        let reader = CaptureReader::open(&path).unwrap();
        let accesses = AccessTables::read(&reader).unwrap();
        let crafted: PathBuf = folder.join(format!("{name}.stallmap"));
        accesses.write(&reader, &crafted, how).unwrap();
        let violations = check(&CaptureReader::open(&crafted).unwrap());
        assert!(violations.is_empty(), "{name}: {violations:?}");
        let references = if how.refers { accesses.references().len() } else { 0 };
        let open = |path: PathBuf| Session::open(&[(None, path)]).unwrap();
        Self { original: open(path), crafted: open(crafted), references }
    }

    /// Rows that only one of both answers has, but for those of some instructions.
    async fn difference(&self, sql: &str, except: &BTreeSet<String>) -> Vec<String> {
        let (one, other) = (rows(&self.original, sql).await, rows(&self.crafted, sql).await);
        assert!(one.len() > 1, "{sql} has no rows");
        let is_compared = |row: &&String| {
            let instruction: Vec<&str> = row.splitn(4, " | ").take(3).collect();
            !except.contains(&instruction.join(" | "))
        };
        one.symmetric_difference(&other).filter(is_compared).cloned().collect()
    }

    /// The part of all samples that the variant charges to something else.
    async fn moved(&self) -> f64 {
        let (one, other) = (costs(&self.original).await, costs(&self.crafted).await);
        let all: f64 = one.values().sum();
        let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        let of = |costs: &BTreeMap<String, f64>, key| costs.get(key).copied().unwrap_or(0.0);
        let differs: f64 = keys.into_iter().map(|key| (of(&one, key) - of(&other, key)).abs()).sum();
        if all > 0.0 { differs / 2.0 / all } else { differs }
    }
}

/// The greatest part of all samples whose tensor may differ where the rows of some requests are missing.
const MAX_MOVED: f64 = 0.05;

async fn rows(session: &Session, sql: &str) -> BTreeSet<String> {
    let rows = answer(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.into_iter().collect()
}

/// Samples by what they are charged to.
async fn costs(session: &Session) -> BTreeMap<String, f64> {
    let split = |row: String| {
        let (key, samples) = row.rsplit_once(" | ")?;
        Some((key.to_owned(), samples.parse().ok()?))
    };
    rows(session, COSTS).await.into_iter().filter_map(split).collect()
}

/// Compares the answers of a capture with those of a variant. Costs of tensors too, where every row must agree.
async fn compare(name: &str, how: SummaryParts) {
    let folder = tempfile::tempdir().unwrap();
    let pair = CapturePair::new(name, how, folder.path());
    let is_exact = how.every_block == 1 && !how.refers;
    let sharing = if is_exact { BTreeSet::new() } else { rows(&pair.original, SHARING).await };
    for sql in [PARTS, SHARES, if is_exact { CHARGES } else { SINGLE_CHARGES }] {
        let differs = pair.difference(sql, &sharing).await;
        assert!(differs.is_empty(), "{name} {how:?}: {sql}\n{differs:#?}");
    }
    for sql in PATTERNS.iter().filter(|_| !how.refers) {
        let differs = pair.difference(sql, &BTreeSet::new()).await;
        assert!(differs.is_empty(), "{name} {how:?}: {sql}\n{differs:#?}");
    }
    let differs = pair.difference(LANES, &BTreeSet::new()).await;
    assert!(differs.is_empty(), "{name} {how:?}: {differs:#?}");
    let moved = pair.moved().await;
    assert!(moved <= if is_exact { 0.0 } else { MAX_MOVED }, "{name} {how:?}: {moved} of the samples");
    let violations = rows(&pair.crafted, "SELECT * FROM conservation_violation").await;
    assert!(violations.is_empty(), "{name} {how:?}: {violations:?}");
    let referring = "SELECT count(DISTINCT kernel_id) FROM pc_tensor WHERE evidence = 'model launch'";
    let referring = rows(&pair.crafted, referring).await;
    assert_eq!(referring, BTreeSet::from([pair.references.to_string()]), "{name} {how:?}");
}

/// Writes the small example as if the GPU had counted its accesses: its third launch has those of the second, which
/// used another storage at the same address.
pub(crate) fn write(path: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    tiny::write(&whole, CaptureForm::Folder).unwrap();
    let reader = CaptureReader::open(&whole).unwrap();
    AccessTables::read(&reader).unwrap().write(&reader, path, REFERRING).unwrap();
}

/// The captures whose comparison takes little time.
const SMALL: [&str; 8] = [
    "access_truth",
    "blame_replays",
    "blame_truth",
    "finding_truth",
    "graph_replay",
    "inference_views",
    "known_truth",
    "two_ranks",
];

#[tokio::test]
async fn counts_beside_all_rows_answer_like_the_rows() {
    for name in SMALL.into_iter().chain(["training_parts"]) {
        compare(name, ALL_ROWS).await;
    }
}

#[tokio::test]
async fn counts_beside_a_quarter_of_the_blocks_answer_like_all_rows() {
    for name in SMALL.into_iter().chain(["training_parts"]) {
        compare(name, QUARTER).await;
    }
}

#[tokio::test]
async fn launches_that_refer_to_another_answer_like_their_own_rows() {
    for name in SMALL.into_iter().chain(["training_parts"]) {
        compare(name, REFERRING).await;
        compare(name, WITHOUT_SUMMARY).await;
    }
}

#[tokio::test]
async fn a_sample_of_blocks_is_counted_and_leaves_nulls() {
    let folder = tempfile::tempdir().unwrap();
    let crafted = CapturePair::new("access_truth", QUARTER, folder.path()).crafted;
    let coverage =
        "SELECT count < total, is_whole, detail FROM coverage WHERE item = 'warp requests recorded'";
    let expected = "true | NULL | the rest is counted, by instruction and block of memory";
    assert_eq!(rows(&crafted, coverage).await, BTreeSet::from([expected.to_owned()]));
    let lost = "SELECT lost_request_count, lost_launch_count FROM process";
    assert_eq!(rows(&crafted, lost).await, BTreeSet::from(["0 | 0".to_owned()]));
    // The capture has no tensors: the other views are empty without samples too.
    let unknown = "SELECT count(*) > 0, count(u.sharing), count(u.shared_sectors), count(r.redundant_loads), \
        count(w.redundant_loads) > 0, count(c.l2_hit_share) FROM launch_access a \
        LEFT JOIN block_sharing u ON u.kernel_id = a.kernel_id \
        LEFT JOIN redundant_load r ON r.kernel_id = a.kernel_id AND r.scope = 'grid' \
        LEFT JOIN redundant_load w ON w.kernel_id = a.kernel_id AND w.scope = 'block' \
        LEFT JOIN reuse c ON c.kernel_id = a.kernel_id AND c.stream = 'launch' WHERE a.is_sampled";
    assert_eq!(rows(&crafted, unknown).await, BTreeSet::from(["true | 0 | 0 | 0 | true | 0".to_owned()]));
}

#[tokio::test]
async fn what_a_missing_launch_may_have_read_is_not_reported_as_unread() {
    let folder = tempfile::tempdir().unwrap();
    let CapturePair { original, crafted, .. } = CapturePair::new("training_parts", REFERRING, folder.path());
    let unread = "SELECT count(*) > 0, count(unused_bytes), count(uninitialized_bytes) FROM tensor_touch";
    assert_eq!(rows(&crafted, unread).await, BTreeSet::from(["true | 0 | 0".to_owned()]));
    let dead = "SELECT object_id, kernel_id, next_kernel_id FROM dead_write";
    let (known, claimed) = (rows(&original, dead).await, rows(&crafted, dead).await);
    assert!(claimed.is_subset(&known), "{claimed:?}");
}

#[tokio::test]
async fn a_redacted_capture_finds_the_memory_of_launches_that_refer() {
    let folder = tempfile::tempdir().unwrap();
    let pair = CapturePair::new("training_parts", REFERRING, folder.path());
    let crafted = CaptureReader::open(&folder.path().join("training_parts.stallmap")).unwrap();
    for (name, keep) in [("zeros", None), ("values", Some(KeptData::Parameters))] {
        let path = folder.path().join(name);
        let options = RedactOptions {
            salt: b"salt".to_vec(),
            keep: keep.into_iter().collect(),
            ..RedactOptions::default()
        };
        redact(&crafted, &options, &path).unwrap();
        let redacted = Session::open(&[(None, path)]).unwrap();
        assert_eq!(rows(&redacted, SHARES).await, rows(&pair.original, SHARES).await, "{name}");
    }
}

/// Rows of the embedding that a capture shows by address, as 2,048 tokens would be read from it.
const READ_ROWS: &str = "SELECT count(DISTINCT a.address) FROM memory_access a \
    JOIN launch l ON l.kernel_id = a.kernel_id JOIN function f ON f.function_id = l.function_id \
    WHERE f.name LIKE '%gather%'";

#[tokio::test]
async fn a_coarse_capture_has_the_costs_and_not_the_elements_that_were_read() {
    let folder = tempfile::tempdir().unwrap();
    // The release that recorded `known_truth` counted no accesses.
    for name in ["inference_views", "training_parts", "known_truth"] {
        let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/{name}.stallmap"));
        let reader = CaptureReader::open(&bundled).unwrap();
        let path = folder.path().join(name);
        let options = RedactOptions { salt: b"salt".to_vec(), is_coarse: true, ..RedactOptions::default() };
        redact(&reader, &options, &path).unwrap();
        assert_eq!(check(&CaptureReader::open(&path).unwrap()), [], "{name}");
        let open = |path: PathBuf| Session::open(&[(None, path)]).unwrap();
        let (original, coarse) = (open(bundled), open(path));
        for query in [SHARES, SINGLE_CHARGES, LANES] {
            assert_eq!(rows(&coarse, query).await, rows(&original, query).await, "{name}: {query}");
        }
        let none = rows(&coarse, "SELECT * FROM memory_access").await;
        assert!(none.is_empty(), "{name}: {} rows remain", none.len());
        let total = "SELECT stall_reason, round(sum(samples), 6) FROM stall_charge GROUP BY 1";
        assert_eq!(rows(&coarse, total).await, rows(&original, total).await, "{name}");
        if name == "inference_views" {
            assert_ne!(rows(&original, READ_ROWS).await, rows(&coarse, READ_ROWS).await);
        }
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 3, "no other file is left: {left:?}");
}

#[tokio::test]
async fn launches_of_a_transformer_that_refer_to_another_charge_the_same_tensors() {
    compare("transformer_step", REFERRING).await;
}

#[tokio::test]
async fn a_count_of_all_parts_reads_no_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.stallmap");
    tiny::write(&path, CaptureForm::File).unwrap();
    let session = Session::open(&[(None, path)]).unwrap();
    let counted = answer(&session, "SELECT count(*) FROM pc_tensor_part").await.unwrap();
    assert_eq!(counted, answer(&session, "SELECT count(kernel_id) FROM pc_tensor_part").await.unwrap());
}

/// The launch of `widen`, which reads 24 MiB and stores 96 MiB, more than L2 holds.
const WIDEN: KernelId = KernelId(0);

/// Requests of `widen` in two halves, of the even and of the odd lanes. Those of the odd lanes are made by the block
/// next to their own: two blocks touch the same sectors, as those of a transposed view do.
fn in_halves(rows: &[MemoryAccess]) -> Vec<MemoryAccess> {
    let half = |row: &MemoryAccess, is_odd: bool| {
        let stride = u64::from(row.stride_bytes.expect("lanes of widen are regular").unsigned_abs());
        MemoryAccess {
            block: row.block ^ u64::from(is_odd),
            sequence: 2 * row.sequence + u64::from(is_odd),
            lane_mask: if is_odd { 0xaaaa_aaaa } else { 0x5555_5555 },
            address: Address(row.address.0 + if is_odd { stride } else { 0 }),
            span_bytes: row.span_bytes - stride,
            ..row.clone()
        }
    };
    let of_widen = rows.iter().filter(|row| row.kernel_id == WIDEN);
    let mut rows: Vec<MemoryAccess> = of_widen.flat_map(|row| [half(row, false), half(row, true)]).collect();
    rows.sort_by_key(|row| (row.kernel_id, row.function_id, row.pc, row.block, row.warp, row.sequence));
    rows
}

#[tokio::test]
async fn memory_that_blocks_share_is_moved_once_where_some_blocks_were_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traffic_truth.stallmap");
    let reader = CaptureReader::open(&bundled).unwrap();
    let accesses = AccessTables::read_changed(&reader, |rows| in_halves(&rows)).unwrap();
    let path = folder.path().join("halves.stallmap");
    accesses
        .write(&reader, &path, SummaryParts { every_block: 8, has_summary: true, refers: false })
        .unwrap();
    let session = Session::open(&[(None, path)]).unwrap();
    // With all blocks 108 MiB: a part of the stores stays in L2.
    let moved =
        "SELECT sum(device_bytes) / 1048576.0 BETWEEN 106 AND 110 FROM launch_traffic WHERE kernel_id = 0";
    assert_eq!(rows(&session, moved).await, BTreeSet::from(["true".to_owned()]));
}
