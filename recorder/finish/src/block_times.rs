//! The tables `block_time` and `warp_event`: times inside of launches, with the launches of the capture.

use std::collections::BTreeMap;

use stallmap_schema::id::KernelId;
use stallmap_schema::word::LossKind;
use stallmap_write::CaptureWriter;

use crate::assemble::append;
use crate::error::FinishError;
use crate::loss::LossTotals;
use crate::runs::RunState;

/// The reason of times whose launch has no rows.
const NO_LAUNCH: &str = "its launch was not recorded";

/// Writes the times of a run's blocks. Launches are those of the capture.
pub(crate) fn write(
    run: &mut RunState,
    writer: &mut CaptureWriter,
    losses: &mut LossTotals,
) -> Result<(), FinishError> {
    let launches: BTreeMap<u64, KernelId> =
        run.rows.launch_runs.iter().map(|row| (row.ordinal, row.kernel_id)).collect();
    let rename = |kernel_id: &mut KernelId| {
        let known = launches.get(&run.bases.ordinal(*kernel_id)).map(|id| *kernel_id = *id);
        known.is_some()
    };
    let mut blocks = std::mem::take(&mut run.rows.block_times);
    let mut events = std::mem::take(&mut run.rows.warp_events);
    let before = blocks.len() + events.len();
    blocks.retain_mut(|row| rename(&mut row.kernel_id));
    events.retain_mut(|row| rename(&mut row.kernel_id));
    let lost = before - blocks.len() - events.len();
    losses.add(run.run_id(), LossKind::Activity, NO_LAUNCH, lost as u64);
    blocks.sort_unstable_by_key(|row| (row.kernel_id, row.block));
    run.block_count = blocks.len() as u64;
    append(writer, blocks)?;
    events.sort_unstable_by_key(|row| (row.kernel_id, row.block, row.warp, row.sequence));
    append(writer, events)
}
