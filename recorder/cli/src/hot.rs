//! The kernels in which a sampling pass waited most: which of them `--replay=share:PERCENT` takes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use arrow::array::RecordBatch;
use stallmap_config::{Instrument, KernelShape};
use stallmap_schema::capture::recording::CodeRange;
use stallmap_schema::capture::segment::{FILE_NAME, Frame, Kind, SegmentReader};
use stallmap_schema::id::{FunctionId, KernelId};
use stallmap_schema::table::Row;
use stallmap_schema::tables::launch::{Launch, LaunchRun};

/// Samples of kernels, by their shape.
type Samples = BTreeMap<KernelShape, u64>;

/// The kernels that together have `percent` of the samples in a recording's folder, the hottest first.
pub(crate) fn kernels(folder: &Path, percent: u8) -> anyhow::Result<Vec<KernelShape>> {
    let prefix = format!("run-{}-", Instrument::PcSamples.word());
    let mut samples = Samples::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list `{}`", folder.display()))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            add_run(&entry.path().join(FILE_NAME), &mut samples)?;
        }
    }
    Ok(hottest(samples, percent))
}

/// Adds the samples of one process.
fn add_run(path: &Path, samples: &mut Samples) -> anyhow::Result<()> {
    let segment = SegmentReader::open(path)?;
    let (mut launches, mut counts, mut names) =
        (BTreeMap::<KernelId, Launch>::new(), BTreeMap::<KernelId, u64>::new(), BTreeMap::new());
    for frame in segment.frames().iter().filter(|frame| frame.kind == Some(Kind::Rows)) {
        // What is damaged costs its samples, not the recording.
        let Ok(Frame::Rows { table, batch }) = segment.read(frame) else { continue };
        launches.extend(rows::<Launch>(&table, &batch).map(|launch| (launch.kernel_id, launch)));
        for run in rows::<LaunchRun>(&table, &batch) {
            *counts.entry(run.kernel_id).or_default() += run.sample_count.unwrap_or(0);
        }
        names.extend(rows::<CodeRange>(&table, &batch).map(|range| (range.function_id, range.name)));
    }
    for (kernel_id, count) in counts {
        let launch = launches.get(&kernel_id);
        if let Some(shape) = launch.and_then(|launch| shape(launch, &names)) {
            *samples.entry(shape).or_default() += count;
        }
    }
    Ok(())
}

fn rows<R: Row>(table: &str, batch: &RecordBatch) -> impl Iterator<Item = R> {
    let rows = if table == R::TABLE.name { R::read_all(batch).ok() } else { None };
    rows.into_iter().flatten()
}

fn shape(launch: &Launch, names: &BTreeMap<FunctionId, String>) -> Option<KernelShape> {
    let &Launch { grid_x, grid_y, grid_z, block_x, block_y, block_z, .. } = launch;
    let name = names.get(&launch.function_id)?.clone();
    Some(KernelShape { name, shape: [grid_x, grid_y, grid_z, block_x, block_y, block_z] })
}

/// The first kernels, by samples, that reach the share; those without samples never do.
fn hottest(samples: Samples, percent: u8) -> Vec<KernelShape> {
    let all: u64 = samples.values().sum();
    let mut samples: Vec<(KernelShape, u64)> = samples.into_iter().filter(|(_, count)| *count > 0).collect();
    samples.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut before = 0;
    let is_needed = |(_, count): &(KernelShape, u64)| {
        let is_needed = u128::from(before) * 100 < u128::from(all) * u128::from(percent);
        before += count;
        is_needed
    };
    samples.into_iter().take_while(is_needed).map(|(shape, _)| shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_kernels_reach_the_share() {
        let kernel = |name: &str| KernelShape { name: name.into(), shape: [1; 6] };
        let samples =
            Samples::from([("a", 10), ("b", 60), ("c", 30), ("d", 0)].map(|(name, n)| (kernel(name), n)));
        let taken = |percent| -> Vec<String> {
            hottest(samples.clone(), percent).into_iter().map(|kernel| kernel.name).collect()
        };
        assert_eq!(taken(60), ["b"]);
        assert_eq!(taken(61), ["b", "c"]);
        assert_eq!(taken(100), ["b", "c", "a"]);
        assert_eq!(hottest(Samples::new(), 50), []);
    }
}
