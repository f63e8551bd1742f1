//! The first addition as a bundle, with its replay and counters.

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::cell::Blob;
use stallmap_schema::hash;
use stallmap_schema::id::{Address, Pc};
use stallmap_schema::tables::replay::{
    Ablation, AblationInstruction, Bundle, BundleContent, BundlePage, BundleSymbol, Counter, ObjectRedirect,
    PAGE_BYTES, Replay,
};
use stallmap_schema::word::{AblationTarget, BundleMethod, RedirectMethod, RedirectTarget, ReplayResult};
use stallmap_write::CaptureWriter;

use crate::tiny::{ACCESSES, COUNTERS, REUSED, add, kernel};

/// A page that begins with 64 floats and holds zeros behind them.
fn page(element: impl Fn(u16) -> f32) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..64).flat_map(|index| element(index).to_le_bytes()).collect();
    bytes.resize(PAGE_BYTES, 0);
    bytes
}

/// The addition reads and writes the first page of `x`, and the second counts as read because it is allocated too.
pub(crate) fn write(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    writer.append_rows([Bundle {
        kernel_id: kernel(1),
        run_id: ACCESSES,
        method: Some(BundleMethod::Observed),
        page_count: 2,
        written_page_count: 1,
        new_page_count: 2,
        shared_carveout: Some(-1),
        record_ns: 40_000,
        max_dynamic_shared_bytes: Some(0),
        ..Bundle::default()
    }])?;
    let after = hash::content_hash(&page(|index| f32::from(index) + 1.0));
    let written = |index: u64| BundlePage {
        kernel_id: kernel(1),
        address: Address(REUSED + index * PAGE_BYTES as u64),
        content_id: 1 + index,
        hash_after: (index == 0).then_some(after),
        content_after_id: None,
        written_content_id: None,
    };
    writer.append_rows([written(0), written(1)])?;
    writer.append_rows([BundleSymbol {
        kernel_id: kernel(1),
        symbol: "scale".to_owned(),
        offset_bytes: 0,
        size_bytes: 4,
        content_id: 2,
        hash_after: None,
    }])?;
    let contents = [page(f32::from), page(|_| 0.0)];
    writer.append_rows((1..).zip(contents).map(|(number, bytes)| BundleContent {
        content_id: number,
        hash: hash::content_hash(&bytes),
        bytes: Blob(bytes),
    }))?;
    replays(writer)
}

fn replays(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    writer.append_rows([Replay {
        run_id: COUNTERS,
        kernel_id: kernel(1),
        result: ReplayResult::Verified,
        checked_page_count: 1,
        ..Replay::default()
    }])?;
    let counter = |metric: &str, value, unit: &str| Counter {
        run_id: COUNTERS,
        kernel_id: kernel(1),
        repeat: 0,
        metric: metric.to_owned(),
        value: Some(value),
        unit: unit.to_owned(),
    };
    writer.append_rows([
        counter("dram__bytes_read.sum", 256.0, "byte"),
        counter("gpu__time_duration.sum", 2_048.0, "ns"),
        counter("smsp__inst_executed.sum", 24.0, "inst"),
    ])?;
    ablation(writer)
}

/// The addition without its read of `x`.
fn ablation(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    writer.append_rows([Ablation {
        run_id: COUNTERS,
        kernel_id: kernel(1),
        experiment: 0,
        target: AblationTarget::Tensor,
        block_address: Some(Address(REUSED)),
        is_cold: false,
        round_count: 15,
        whole_ns: Some(2_048.0),
        without_ns: Some(1_536.0),
        saved_ns: Some(512.0),
        saved_low_ns: Some(480.0),
        saved_high_ns: Some(544.0),
        refusal: None,
    }])?;
    writer.append_rows([AblationInstruction {
        run_id: COUNTERS,
        kernel_id: kernel(1),
        experiment: 0,
        function_id: add(),
        pc: Pc(16),
    }])?;
    redirect(writer)
}

/// The addition with `x` in L2.
fn redirect(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    writer.append_rows([ObjectRedirect {
        run_id: COUNTERS,
        kernel_id: kernel(1),
        experiment: 0,
        target: RedirectTarget::Object,
        method: Some(RedirectMethod::Preload),
        block_address: Some(Address(REUSED)),
        object_bytes: 4_096,
        redirected_bytes: 4_096,
        is_cold: false,
        round_count: 15,
        whole_ns: Some(2_048.0),
        redirected_ns: Some(1_792.0),
        saved_ns: Some(256.0),
        saved_low_ns: Some(224.0),
        saved_high_ns: Some(288.0),
        refusal: None,
    }])
}
