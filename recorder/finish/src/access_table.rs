//! The table `memory_access`: launch by launch, several at once.
//!
//! All threads convert launches and encode row groups. The calling thread writes these, in order.

mod large;
mod queue;
mod units;

use std::collections::BTreeSet;

use stallmap_schema::capture::request::SLOT_BYTES;
use stallmap_schema::capture::segment::{FrameRef, SegmentReader};
use stallmap_schema::id::{FunctionId, Pc};
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::word::{Instrument, LossKind};
use stallmap_write::CaptureWriter;

use self::queue::{NextRows, UnitQueue};
use self::units::{LaunchSize, units};
use crate::code::CodeMap;
use crate::error::FinishError;
use crate::loss::LossTotals;
use crate::runs::RunState;
use stallmap_write::requests::{ConversionLimits, ConvertedLaunch, LaunchSource};

type FindFunction<'a> = dyn Fn(u64, u64) -> Option<(FunctionId, Pc)> + Sync + 'a;

/// Inputs of the table other than the run.
pub(crate) struct AccessTableInputs<'a> {
    pub(crate) segment: &'a SegmentReader,
    pub(crate) code: &'a CodeMap,
    /// Called with the number of bytes of records that are done.
    pub(crate) progress: &'a dyn Fn(u64),
}

/// Writes a run's accesses, and fills the counts of its launches. Returns the functions that the rows name.
pub(crate) fn write(
    run: &mut RunState,
    around: &AccessTableInputs<'_>,
    writer: &mut CaptureWriter,
    losses: &mut LossTotals,
) -> Result<BTreeSet<FunctionId>, FinishError> {
    let run_id = run.run_id();
    let mut requests = std::mem::take(&mut run.rows.requests);
    let frames: Vec<Vec<FrameRef>> =
        run.rows.launch_runs.iter().map(|row| requests.remove(&row.ordinal).unwrap_or_default()).collect();
    for frames in requests.into_values() {
        let bytes: u64 = frames.iter().map(|frame| u64::from(frame.raw_bytes)).sum();
        let detail = losses.add(run_id, LossKind::Access, "their launch was not recorded", 1);
        detail.get_or_insert_with(|| format!("frames with {bytes} bytes of records"));
    }
    let find = |pc, ordinal| around.code.find(pc, ordinal);
    let launches = run.rows.launch_runs.iter().zip(&frames);
    let sources: Vec<LaunchSource<'_>> =
        launches.map(|(row, frames)| source(row, frames, (around, &find))).collect();
    let sizes = run.rows.launch_runs.iter().zip(&sources).map(|(row, source)| {
        let (bytes, most) = (source.raw_bytes(), source.raw_bytes() / SLOT_BYTES as u64);
        LaunchSize { requests: row.request_count.map_or(most, |count| count.min(most)), bytes }
    });
    let units = units(sizes);
    let queue = UnitQueue::new(&units, &sources, writer.encoder::<MemoryAccess>()?, ConversionLimits::USUAL);
    let mut functions = BTreeSet::new();
    let rows = &mut run.rows.launch_runs;
    std::thread::scope(|scope| {
        let mut threads = 0;
        // Where the system starts no more threads, fewer do, or this one alone.
        while threads < rayon::current_num_threads()
            && std::thread::Builder::new().spawn_scoped(scope, || queue.work()).is_ok()
        {
            threads += 1;
        }
        let mut write = || -> Result<(), FinishError> {
            loop {
                match queue.next(threads == 0)? {
                    NextRows::Groups(groups) => {
                        groups.into_iter().try_for_each(|group| writer.append_group(group))?;
                    }
                    NextRows::Unit(unit, converted) => {
                        for (launch, converted) in unit.launches().zip(converted) {
                            let Some((row, source)) = rows.get_mut(launch).zip(sources.get(launch)) else {
                                continue;
                            };
                            count(row, &converted, losses);
                            functions.extend(&converted.functions);
                            (around.progress)(source.raw_bytes());
                        }
                    }
                    NextRows::End => return Ok(()),
                }
            }
        };
        let written = write();
        queue.stop();
        written
    })?;
    Ok(functions)
}

fn source<'a>(
    row: &LaunchRun,
    frames: &'a [FrameRef],
    (around, find): (&AccessTableInputs<'a>, &'a FindFunction<'a>),
) -> LaunchSource<'a> {
    LaunchSource { kernel_id: row.kernel_id, ordinal: row.ordinal, segment: around.segment, frames, find }
}

/// Fills a launch's counts from its rows, and counts the difference to the GPU's own count.
pub(crate) fn count(row: &mut LaunchRun, converted: &ConvertedLaunch, losses: &mut LossTotals) {
    let kernel_id = Some(row.kernel_id);
    let mut lost = 0;
    for (reason, count) in &converted.lost {
        losses.add_at(row.run_id, LossKind::Access, reason, *count, kernel_id);
        lost += count;
    }
    let seen = converted.request_count + lost;
    let missing = row.request_count.unwrap_or(seen).saturating_sub(seen);
    if missing > 0 {
        losses.add_at(row.run_id, LossKind::Access, "not on disk when the process ended", missing, kernel_id);
    }
    // Where the GPU's own count is not known, neither is this.
    let before = row.lost_request_count;
    row.recorded |= converted.request_count > 0;
    row.request_count = Some(converted.request_count);
    row.lane_access_count = Some(converted.lane_access_count);
    row.lost_request_count = before.map(|before| before + lost + missing);
}

/// True if the run records accesses.
pub(crate) fn has_accesses(run: &RunState) -> bool {
    run.row.instrument == Instrument::Accesses
}
