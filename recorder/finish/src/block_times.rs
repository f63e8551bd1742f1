//! The table `block_time`: times inside of launches, with the launches of the capture.

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
    let mut blocks = std::mem::take(&mut run.rows.block_times);
    let before = blocks.len();
    blocks.retain_mut(|row| match launches.get(&run.bases.ordinal(row.kernel_id)) {
        Some(kernel_id) => {
            row.kernel_id = *kernel_id;
            true
        }
        None => false,
    });
    losses.add(run.run_id(), LossKind::Activity, NO_LAUNCH, (before - blocks.len()) as u64);
    blocks.sort_unstable_by_key(|row| (row.kernel_id, row.block));
    run.block_count = blocks.len() as u64;
    append(writer, blocks)
}
