//! A folder of replays, as the replayer writes it.

use std::fs;
use std::path::{Path, PathBuf};

use stallmap_schema::capture::recording::RawSample;
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::id::{FunctionId, KernelId, Pc, RunId};
use stallmap_schema::tables::code::Module;
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::replay::{Ablation, AblationInstruction, Counter, ObjectRedirect, Replay};
use stallmap_schema::word::{
    AblationTarget, Instrument, LossKind, Match, RedirectMethod, RedirectTarget, ReplayResult,
};

use crate::recording::{self, CUBIN};

/// CUPTI's name of the cubin as the capture holds it.
pub(crate) const STORED_CRC: u64 = 0xbeef;

/// One run of replays.
pub(crate) struct ReplayRun(SegmentWriter);

/// The folder of replays of a capture.
pub(crate) fn folder(parent: &Path) -> PathBuf {
    let folder = parent.join("program.stallmap.replay.partial");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("recording.json"), r#"{"program": "stallmap-record", "arguments": ["replay"]}"#)
        .unwrap();
    folder
}

impl ReplayRun {
    /// Begins a run that loaded the capture's cubin.
    pub(crate) fn new(folder: &Path, instrument: Instrument, process_id: u32) -> Self {
        let name = format!("run-{}-{process_id}", instrument.word());
        let mut segment = recording::segment(folder, &name);
        recording::describe_run(&mut segment, instrument, process_id);
        let module = Module {
            module_id: recording::module(),
            content_hash: blake3::hash(CUBIN).to_hex().to_string(),
            cubin_bytes: CUBIN.len() as u64,
            cupti_crc: Some(STORED_CRC),
            sm: None,
            file: None,
            zeroed_bytes: 0,
        };
        recording::put(&mut segment, [module]);
        Self(segment)
    }

    /// A replay of a launch. Without a result, the process died before it.
    pub(crate) fn replay(&mut self, ordinal: u64, kernel_id: KernelId, result: Option<ReplayResult>) {
        let launch = LaunchRun {
            kernel_id,
            matched: Match::Replayed,
            correlation_id: Some(100 + ordinal),
            ..recording::launch_run(ordinal)
        };
        recording::put(&mut self.0, [launch]);
        let row = |result| Replay { ordinal, kernel_id, result, checked_page_count: 1, ..Replay::default() };
        recording::put(&mut self.0, result.map(row));
    }

    /// Samples of a replay, in a function of the cubin as it was loaded.
    pub(crate) fn samples(&mut self, ordinal: u64, function: &str, samples: u64) {
        let reason = "smsp__pcsamp_warps_issue_stalled_wait";
        let sample = recording::sample(ordinal, function, 0x20, reason, samples);
        recording::put(&mut self.0, [RawSample { cubin_crc: STORED_CRC, ..sample }]);
    }

    /// The accesses of a replay.
    pub(crate) fn requests(&mut self, ordinal: u64, records: &[u8]) {
        self.0.append_requests(ordinal, records).unwrap();
    }

    /// A counter of a launch.
    pub(crate) fn counter(&mut self, kernel_id: KernelId, metric: &str, value: f64) {
        let metric = metric.to_owned();
        let unit = "byte".to_owned();
        let row = Counter { run_id: RunId(0), kernel_id, repeat: 0, metric, value: Some(value), unit };
        recording::put(&mut self.0, [row]);
    }

    /// An experiment without an instruction at the start of a function.
    pub(crate) fn ablation(&mut self, kernel_id: KernelId, function_id: FunctionId) {
        let row = Ablation {
            kernel_id,
            target: AblationTarget::Instruction,
            is_cold: true,
            round_count: 15,
            whole_ns: Some(2_048.0),
            without_ns: Some(1_024.0),
            saved_ns: Some(1_024.0),
            saved_low_ns: Some(992.0),
            saved_high_ns: Some(1_056.0),
            ..Ablation::default()
        };
        recording::put(&mut self.0, [row]);
        let row = AblationInstruction { run_id: RunId(0), kernel_id, experiment: 0, function_id, pc: Pc(0) };
        recording::put(&mut self.0, [row]);
    }

    /// An experiment with an object in L2.
    pub(crate) fn redirect(&mut self, kernel_id: KernelId) {
        let row = ObjectRedirect {
            kernel_id,
            target: RedirectTarget::Object,
            method: Some(RedirectMethod::Alias),
            object_bytes: 8 << 20,
            redirected_bytes: 8 << 20,
            is_cold: true,
            round_count: 15,
            whole_ns: Some(2_048.0),
            redirected_ns: Some(1_024.0),
            saved_ns: Some(1_024.0),
            saved_low_ns: Some(992.0),
            saved_high_ns: Some(1_056.0),
            ..ObjectRedirect::default()
        };
        recording::put(&mut self.0, [row]);
    }

    /// A loss in a replay.
    pub(crate) fn lose(&mut self, ordinal: u64, kind: LossKind, reason: &str) {
        let (reason, kernel_id) = (reason.to_owned(), Some(KernelId(ordinal)));
        recording::put(
            &mut self.0,
            [Loss { run_id: RunId(0), kind, reason, lost_count: 1, kernel_id, detail: None }],
        );
    }

    /// Ends the run.
    pub(crate) fn end(mut self) {
        recording::put(&mut self.0, [recording::fact("clean_end", "true")]);
    }
}
