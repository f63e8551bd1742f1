//! The table `memory_access`: launch by launch, several at once where they are small.
//!
//! All threads convert launches and encode row groups. One thread writes these, in order.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow::array::RecordBatch;
use rayon::prelude::*;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::segment::{FrameRef, SegmentReader};
use stallmap_schema::id::FunctionId;
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::word::{Instrument, LossKind};
use stallmap_write::{CaptureWriter, GroupEncoder, RowGroup, Rows};

use crate::accesses::{self, Converted, Source};
use crate::code::CodeMap;
use crate::error::FinishError;
use crate::loss::Losses;
use crate::runs::RunState;

/// Bytes of records that are converted at once where launches are small: some row groups for each thread.
const WINDOW_BYTES: u64 = 128 << 20;

/// Inputs of the table other than the run.
pub(crate) struct Surroundings<'a> {
    pub(crate) segment: &'a SegmentReader,
    pub(crate) code: &'a CodeMap,
    /// Called with the number of bytes of records that are done.
    pub(crate) progress: &'a dyn Fn(u64),
}

/// Writes a run's accesses, and fills the counts of its launches. Returns the functions that the rows name.
pub(crate) fn write(
    run: &mut RunState,
    around: &Surroundings<'_>,
    writer: &mut CaptureWriter,
    losses: &mut Losses,
) -> Result<BTreeSet<FunctionId>, FinishError> {
    let run_id = run.run_id();
    let mut requests = std::mem::take(&mut run.rows.requests);
    let rows: Vec<&mut LaunchRun> = run.rows.launch_runs.iter_mut().collect();
    let mut waiting: Vec<(&mut LaunchRun, Vec<FrameRef>)> = rows
        .into_iter()
        .map(|row| {
            let frames = requests.remove(&row.ordinal).unwrap_or_default();
            (row, frames)
        })
        .collect();
    for frames in requests.into_values() {
        let bytes = raw_bytes(&frames);
        let detail = losses.add(run_id, LossKind::Access, "their launch was not recorded", 1);
        detail.get_or_insert_with(|| format!("frames with {bytes} bytes of records"));
    }
    let encoder = writer.encoder::<MemoryAccess>()?;
    // Groups that are ready wait for the thread that writes, so memory stays bounded.
    std::thread::scope(|scope| {
        let (send, groups) = sync_channel(1);
        let begun = std::thread::Builder::new().spawn_scoped(scope, move || append_all(&groups, writer));
        let appended =
            begun.map_err(FinishError::io("start a thread to write", Path::new("memory_access")))?;
        let converted = convert_all(&mut waiting, around, Groups::new(encoder, send), losses);
        // Where writing failed, converting failed too, for want of a receiver: the cause is the one to report.
        appended.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        converted
    })
}

fn append_all(groups: &Receiver<Vec<RowGroup>>, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    groups.iter().flatten().try_for_each(|group| writer.append_group(group))
}

/// Rows on their way into row groups.
struct Groups {
    encoder: Arc<GroupEncoder>,
    send: SyncSender<Vec<RowGroup>>,
    waiting: Rows,
}

impl Groups {
    fn new(encoder: Arc<GroupEncoder>, send: SyncSender<Vec<RowGroup>>) -> Self {
        let waiting = Rows::new(&encoder);
        Self { encoder, send, waiting }
    }

    /// Adds rows. Complete groups are encoded, at the same time, and sent.
    fn push(&mut self, batches: Vec<RecordBatch>) -> Result<(), FinishError> {
        let mut complete = Vec::new();
        for batch in batches {
            complete.extend(self.waiting.push(batch));
        }
        self.encode(&complete)
    }

    /// Encodes the rows that are left.
    fn finish(mut self) -> Result<(), FinishError> {
        self.waiting.rest().map_or(Ok(()), |rest| self.encode(&[rest]))
    }

    fn encode(&self, groups: &[Vec<RecordBatch>]) -> Result<(), FinishError> {
        let encoded = groups.par_iter().map(|batches| self.encoder.encode(batches));
        self.send.send(encoded.collect::<Result<_, _>>()?).map_err(|_| FinishError::Stopped)
    }
}

/// Converts launches, window by window. The functions that the rows name.
fn convert_all(
    launches: &mut [(&mut LaunchRun, Vec<FrameRef>)],
    around: &Surroundings<'_>,
    mut groups: Groups,
    losses: &mut Losses,
) -> Result<BTreeSet<FunctionId>, FinishError> {
    let mut functions = BTreeSet::new();
    let mut windows = Windows { rest: launches };
    while let Some(window) = windows.next(|(_, frames)| raw_bytes(frames)) {
        let converted = convert(window, around, &mut groups)?;
        for ((row, frames), converted) in window.iter_mut().zip(converted) {
            count(row, &converted, losses);
            functions.extend(&converted.functions);
            (around.progress)(raw_bytes(frames));
        }
    }
    groups.finish()?;
    Ok(functions)
}

/// Launches in windows: those that are converted at once.
struct Windows<'w, T> {
    rest: &'w mut [T],
}

impl<'w, T> Windows<'w, T> {
    /// The next window by the bytes of each launch: one launch at least. `None` at the end.
    fn next(&mut self, bytes_of: impl Fn(&T) -> u64) -> Option<&'w mut [T]> {
        let mut bytes = 0;
        let fits = |launch: &&T| {
            bytes += bytes_of(launch);
            bytes <= WINDOW_BYTES
        };
        let count = self.rest.iter().take_while(fits).count().max(1);
        let (window, after) = std::mem::take(&mut self.rest).split_at_mut_checked(count)?;
        self.rest = after;
        Some(window)
    }
}

fn raw_bytes(frames: &[FrameRef]) -> u64 {
    frames.iter().map(|frame| u64::from(frame.raw_bytes)).sum()
}

fn convert(
    window: &[(&mut LaunchRun, Vec<FrameRef>)],
    around: &Surroundings<'_>,
    groups: &mut Groups,
) -> Result<Vec<Converted>, FinishError> {
    if let [(row, frames)] = window {
        let mut push = |batches| groups.push(batches);
        return Ok(vec![accesses::convert(&source(row, frames, around), &mut push)?]);
    }
    let sources: Vec<_> = window.iter().map(|(row, frames)| source(row, frames, around)).collect();
    let collected = sources.par_iter().map(|source| {
        let mut all = Vec::new();
        let mut keep = |batches: Vec<RecordBatch>| {
            all.extend(batches);
            Ok(())
        };
        accesses::convert(source, &mut keep).map(|converted| (converted, all))
    });
    let (converted, batches): (Vec<_>, Vec<_>) =
        collected.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    groups.push(batches.concat())?;
    Ok(converted)
}

fn source<'a>(row: &LaunchRun, frames: &'a [FrameRef], around: &Surroundings<'a>) -> Source<'a> {
    Source {
        kernel_id: row.kernel_id,
        ordinal: row.ordinal,
        segment: around.segment,
        frames,
        code: around.code,
    }
}

/// Fills a launch's counts from its rows, and counts the difference to the GPU's own count.
pub(crate) fn count(row: &mut LaunchRun, converted: &Converted, losses: &mut Losses) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_launches_share_a_window_and_a_large_one_is_alone() {
        let mut launches = [1, 2, WINDOW_BYTES, WINDOW_BYTES + 1, 5, WINDOW_BYTES - 5, 1];
        let mut windows = Windows { rest: &mut launches };
        let length = || Some(windows.next(|bytes| *bytes)?.len());
        let lengths: Vec<usize> = std::iter::from_fn(length).collect();
        assert_eq!(lengths, [2, 1, 1, 2, 1]);
    }
}
