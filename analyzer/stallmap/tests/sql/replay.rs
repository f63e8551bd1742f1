//! A capture with replays: the launches of `blame`, bundled, and measured by runs of different period and repeats.
//!
//! | run | content | period | launch 0 | launch 1 | launch 2 | launch 3 |
//! |---|---|---|---|---|---|---|
//! | 1 | the program's accesses | | bundled | bundled | bundled | refused |
//! | 2 | samples of the program, in one of the two captures | 128 | once | once | | |
//! | 3 | samples of replays | 64 | 3 verified, 1 different | 2 verified | | |
//! | 4 | samples of replays, later, with a fifth dropped | 256 | | 4 verified, 1 unstable | 1 failed | |
//! | 5 | replays without an instrument | | 3 verified | 1 unstable | | |

use std::path::Path;

use stallmap_schema::cell::Blob;
use stallmap_schema::hash;
use stallmap_schema::id::{KernelId, Pc, RunId};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::replay::{Bundle, BundleContent, BundleSymbol, PAGE_BYTES, Replay};
use stallmap_schema::tables::run::{Device, Run};
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::word::{BundleMethod, Instrument, Match, ReplayResult};
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::blame::{self, ACCESSES};

const PROGRAM: RunId = RunId(2);
const SHORT: RunId = RunId(3);
const LONG: RunId = RunId(4);
const NATIVE: RunId = RunId(5);

const VERIFIED: ReplayResult = ReplayResult::Verified;
const UNSTABLE: ReplayResult = ReplayResult::Unstable;

/// Writes the capture, with samples of the program or without.
pub(crate) fn write(output: &Path, is_program_sampled: bool) {
    let mut writer = CaptureWriter::create(output, CaptureForm::File).unwrap();
    let runs = runs().into_iter().filter(|run| is_program_sampled || run.run_id != PROGRAM);
    let runs: Vec<Run> = runs.collect();
    writer.append_rows(runs.iter().map(|run| device(run.run_id))).unwrap();
    writer.append_rows(runs).unwrap();
    blame::code(&mut writer);
    writer.append_rows((0..4).map(launch)).unwrap();
    writer.append_rows((0..4).map(|ordinal| blame::launch_run(ACCESSES, ordinal, Match::Reference))).unwrap();
    if is_program_sampled {
        let seen = [(0, 50), (1, 15)].map(|(ordinal, taken)| LaunchRun {
            sample_count: Some(taken),
            ..blame::launch_run(PROGRAM, ordinal, Match::Matched)
        });
        writer.append_rows(seen).unwrap();
    }
    let replays = replays();
    writer.append_rows(replays.iter().map(replayed)).unwrap();
    writer.append_rows(replays).unwrap();
    writer.append_rows([blame::storage(1, blame::A), blame::storage(2, blame::B)]).unwrap();
    writer.append_rows([blame::tensor(1, blame::A), blame::tensor(2, blame::B)]).unwrap();
    writer.append_rows(blame::accesses()).unwrap();
    let samples = samples().into_iter().filter(|row| is_program_sampled || row.run_id != PROGRAM);
    writer.append_rows(samples.collect::<Vec<_>>()).unwrap();
    bundles(&mut writer);
    writer.finish().unwrap();
}

fn runs() -> [Run; 5] {
    let run = |run_id, instrument, started_ns, sampling_period_cycles| Run {
        started_ns,
        sampling_period_cycles,
        ..blame::run(run_id, instrument)
    };
    [
        run(ACCESSES, Instrument::Accesses, 0, None),
        run(PROGRAM, Instrument::PcSamples, 1, Some(128)),
        run(SHORT, Instrument::PcSamples, 2, Some(64)),
        run(LONG, Instrument::PcSamples, 3, Some(256)),
        run(NATIVE, Instrument::Native, 4, None),
    ]
}

fn device(run_id: RunId) -> Device {
    Device {
        run_id,
        // Replays have seen the GPU under another number.
        device_id: i32::from(run_id > PROGRAM),
        name: "NVIDIA H200".to_owned(),
        compute_major: 9,
        compute_minor: 0,
        multiprocessor_count: 100,
        memory_bytes: 1 << 37,
        l2_bytes: 1 << 25,
        sm_clock_khz: 1_000_000,
        memory_clock_khz: 1_000_000,
        memory_bus_bits: None,
        uuid: None,
    }
}

fn launch(ordinal: u64) -> Launch {
    Launch { run_id: ACCESSES, ..blame::launch(ordinal) }
}

/// A launch of a run of replays. The repeat with different memory lost samples, which do not count.
fn replayed(replay: &Replay) -> LaunchRun {
    let counts = match (replay.run_id, replay.kernel_id.0, replay.result) {
        (SHORT, _, ReplayResult::Different) => Some((500, 100)),
        (SHORT, 0, _) => Some((150, 30)),
        (SHORT, ..) => Some((45, 0)),
        (LONG, 1, _) => Some((30, 8)),
        _ => None,
    };
    LaunchRun {
        kernel_id: replay.kernel_id,
        sample_count: counts.map(|(taken, _)| taken),
        lost_sample_count: counts.map(|(_, lost)| lost),
        ..blame::launch_run(replay.run_id, replay.ordinal, Match::Replayed)
    }
}

fn replays() -> Vec<Replay> {
    let mut rows: Vec<Replay> = Vec::new();
    let different = ReplayResult::Different;
    let repeats: [(RunId, u64, &[ReplayResult]); 6] = [
        (SHORT, 0, &[VERIFIED, VERIFIED, different, VERIFIED]),
        (SHORT, 1, &[VERIFIED, VERIFIED]),
        (LONG, 1, &[VERIFIED, VERIFIED, UNSTABLE, VERIFIED, VERIFIED]),
        (LONG, 2, &[ReplayResult::Failed]),
        (NATIVE, 0, &[VERIFIED, VERIFIED, VERIFIED]),
        (NATIVE, 1, &[UNSTABLE]),
    ];
    for (run_id, kernel, results) in repeats {
        for (repeat, &result) in (0..).zip(results) {
            let ordinal = rows.iter().filter(|row| row.run_id == run_id).count() as u64;
            rows.push(replay(run_id, ordinal, kernel, repeat, result));
        }
    }
    rows
}

fn replay(run_id: RunId, ordinal: u64, kernel: u64, repeat: u32, result: ReplayResult) -> Replay {
    Replay {
        run_id,
        ordinal,
        kernel_id: KernelId(kernel),
        repeat,
        result,
        checked_page_count: 2,
        different_page_count: u64::from(result != VERIFIED),
        unstable_page_count: u64::from(result == UNSTABLE),
        is_translated: false,
        duration_ns: (run_id == NATIVE).then_some(1000 + 10 * u64::from(repeat)),
        detail: (result == ReplayResult::Failed).then(|| "out of memory".to_owned()),
    }
}

fn samples() -> Vec<PcSample> {
    let sample = |(run_id, launch, pc, reason, samples): (RunId, u64, u32, &str, u64)| PcSample {
        run_id,
        kernel_id: KernelId(launch),
        function_id: blame::function(),
        pc: Pc(pc),
        stall_reason: reason.to_owned(),
        samples,
        samples_not_issued: samples / 2,
    };
    let rows = [
        (PROGRAM, 0, 0x50, "lg_throttle", 4),
        (SHORT, 0, 0x50, "lg_throttle", 30),
        (PROGRAM, 0, 0xe0, "long_scoreboard", 40),
        (SHORT, 0, 0xe0, "long_scoreboard", 300),
        (PROGRAM, 0, 0x130, "selected", 6),
        (SHORT, 0, 0x130, "selected", 30),
        (LONG, 1, 0x50, "lg_throttle", 5),
        (PROGRAM, 1, 0xe0, "long_scoreboard", 9),
        (SHORT, 1, 0xe0, "long_scoreboard", 40),
        (LONG, 1, 0xe0, "long_scoreboard", 50),
        (SHORT, 1, 0x100, "selected", 20),
        (LONG, 1, 0x100, "selected", 30),
        (SHORT, 1, 0x110, "short_scoreboard", 10),
        (PROGRAM, 1, 0x140, "drain", 6),
        (SHORT, 1, 0x140, "drain", 20),
        (LONG, 1, 0x140, "drain", 25),
    ];
    rows.map(sample).to_vec()
}

fn bundles(writer: &mut CaptureWriter) {
    let refusals = [None, None, None, Some("peer memory")];
    writer.append_rows((0..).zip(refusals).map(|(ordinal, refusal)| bundle(ordinal, refusal))).unwrap();
    let symbol = BundleSymbol {
        kernel_id: KernelId(1),
        symbol: "counter".to_owned(),
        offset_bytes: 0,
        size_bytes: 100,
        content_id: 1,
        hash_after: None,
    };
    writer.append_rows([symbol]).unwrap();
    let content = |content_id: u8| {
        let bytes = vec![content_id; PAGE_BYTES];
        BundleContent { content_id: content_id.into(), hash: hash::content_hash(&bytes), bytes: Blob(bytes) }
    };
    writer.append_rows([content(1), content(2)]).unwrap();
}

fn bundle(ordinal: u64, refusal: Option<&str>) -> Bundle {
    let pages = if refusal.is_none() { 2 } else { 0 };
    Bundle {
        kernel_id: KernelId(ordinal),
        run_id: ACCESSES,
        refusal: refusal.map(str::to_owned),
        method: refusal.is_none().then_some(BundleMethod::Observed),
        page_count: pages,
        written_page_count: pages / 2,
        new_page_count: if ordinal == 0 { 2 } else { 0 },
        record_ns: 1000,
        ..Bundle::default()
    }
}
