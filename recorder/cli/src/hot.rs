//! The kernels in which a sampling pass waited most: which of them `--replay=share:PERCENT` takes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use arrow::array::RecordBatch;
use stallmap_config::{KernelShape, PassInstrument};
use stallmap_schema::capture::recording::{CodeRange, RunFact};
use stallmap_schema::capture::segment::{FILE_NAME, FrameKind, SegmentFrame, SegmentReader};
use stallmap_schema::id::{FunctionId, KernelId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::launch::{Launch, LaunchRun};

/// Cycles in which kernels were sampled, by their shape: samples, each for the period of its launch.
type ShapeSamples = BTreeMap<KernelShape, u64>;

/// The kernels that together have `percent` of the samples in a recording's folder, the hottest first.
pub(crate) fn kernels(folder: &Path, percent: u8) -> anyhow::Result<Vec<KernelShape>> {
    let mut samples = ShapeSamples::new();
    for segment in segments(folder, PassInstrument::PcSamples)? {
        add_run(&segment, &mut samples)?;
    }
    Ok(hottest(samples, percent))
}

/// The segments of the runs of an instrument in a recording's folder.
pub(crate) fn segments(folder: &Path, instrument: PassInstrument) -> anyhow::Result<Vec<PathBuf>> {
    let prefix = format!("run-{}-", instrument.word());
    let entries = fs::read_dir(folder).with_context(|| format!("list `{}`", folder.display()))?.flatten();
    let runs = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    Ok(runs.map(|entry| entry.path().join(FILE_NAME)).collect())
}

/// Adds the samples of one process.
fn add_run(path: &Path, samples: &mut ShapeSamples) -> anyhow::Result<()> {
    let segment = SegmentReader::open(path)?;
    let (mut launches, mut runs, mut names) =
        (BTreeMap::<KernelId, Launch>::new(), Vec::<LaunchRun>::new(), BTreeMap::new());
    let mut period = 1;
    for frame in segment.frames().iter().filter(|frame| frame.kind == Some(FrameKind::Rows)) {
        // What is damaged costs its samples, not the recording.
        let Ok(SegmentFrame::Rows { table, batch }) = segment.read(frame) else { continue };
        launches.extend(rows::<Launch>(&table, &batch).map(|launch| (launch.kernel_id, launch)));
        runs.extend(rows::<LaunchRun>(&table, &batch));
        for fact in rows::<RunFact>(&table, &batch).filter(|fact| fact.name == "sampling_period_cycles") {
            period = fact.value.parse().unwrap_or(period);
        }
        names.extend(rows::<CodeRange>(&table, &batch).map(|range| (range.function_id, range.name)));
    }
    for run in runs {
        let launch = launches.get(&run.kernel_id);
        if let Some(shape) = launch.and_then(|launch| shape(launch, &names)) {
            let cycles = run.sampling_period_cycles.unwrap_or(period);
            let sum = samples.entry(shape).or_default();
            *sum = sum.saturating_add(run.sample_count.unwrap_or(0).saturating_mul(cycles));
        }
    }
    Ok(())
}

/// The rows of a batch, if it is of their table.
pub(crate) fn rows<R: TableRow>(table: &str, batch: &RecordBatch) -> impl Iterator<Item = R> {
    let rows = if table == R::TABLE.name { R::read_all(batch).ok() } else { None };
    rows.into_iter().flatten()
}

fn shape(launch: &Launch, names: &BTreeMap<FunctionId, String>) -> Option<KernelShape> {
    let &Launch { grid_x, grid_y, grid_z, block_x, block_y, block_z, .. } = launch;
    let name = names.get(&launch.function_id)?.clone();
    Some(KernelShape { name, shape: [grid_x, grid_y, grid_z, block_x, block_y, block_z] })
}

/// The first kernels, by samples, that reach the share. Those without samples never do.
fn hottest(samples: ShapeSamples, percent: u8) -> Vec<KernelShape> {
    let all: u128 = samples.values().map(|count| u128::from(*count)).sum();
    let mut samples: Vec<(KernelShape, u64)> = samples.into_iter().filter(|(_, count)| *count > 0).collect();
    samples.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut before = 0_u128;
    let is_needed = |(_, count): &(KernelShape, u64)| {
        let is_needed = before * 100 < all * u128::from(percent);
        before += u128::from(*count);
        is_needed
    };
    samples.into_iter().take_while(is_needed).map(|(shape, _)| shape).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use stallmap_schema::capture::segment::SegmentWriter;
    use stallmap_schema::id::{Address, ModuleId};
    use stallmap_schema::word::Match;

    use super::*;

    #[test]
    fn the_hottest_kernels_reach_the_share() {
        let kernel = |name: &str| KernelShape { name: name.into(), shape: [1; 6] };
        let samples = ShapeSamples::from(
            [("a", 10), ("b", 60), ("c", 30), ("d", 0)].map(|(name, n)| (kernel(name), n)),
        );
        let taken = |percent| -> Vec<String> {
            hottest(samples.clone(), percent).into_iter().map(|kernel| kernel.name).collect()
        };
        assert_eq!(taken(60), ["b"]);
        assert_eq!(taken(61), ["b", "c"]);
        assert_eq!(taken(100), ["b", "c", "a"]);
        assert_eq!(hottest(ShapeSamples::new(), 50), []);
    }

    /// A process whose launches have these kernels, grids, samples, and periods where they are not the run's 256.
    fn write_run(folder: &Path, launches: &[(u64, u32, u64, Option<u64>)]) {
        std::fs::create_dir(folder).unwrap();
        let mut segment = SegmentWriter::create(&folder.join(FILE_NAME)).unwrap();
        let rows =
            (0..).zip(launches).map(|(ordinal, &(function, grid, samples, sampling_period_cycles))| {
                let run = LaunchRun { sampling_period_cycles, ..launch_run(ordinal, samples) };
                (launch(ordinal, function, grid), run, code_range(function))
            });
        let rows: Vec<_> = rows.collect();
        let period = RunFact { name: "sampling_period_cycles".into(), value: "256".into() };
        let batches = [
            (Launch::TABLE.name, Launch::batch(rows.iter().map(|row| row.0.clone())).unwrap()),
            (LaunchRun::TABLE.name, LaunchRun::batch(rows.iter().map(|row| row.1.clone())).unwrap()),
            (CodeRange::TABLE.name, CodeRange::batch(rows.iter().map(|row| row.2.clone())).unwrap()),
            (RunFact::TABLE.name, RunFact::batch([period]).unwrap()),
        ];
        for (table, batch) in batches {
            segment.append_batch(table, &batch).unwrap();
        }
    }

    pub(crate) fn launch(ordinal: u64, function: u64, grid_x: u32) -> Launch {
        Launch {
            kernel_id: KernelId(ordinal),
            function_id: FunctionId(function),
            ordinal,
            grid_x,
            grid_y: 1,
            grid_z: 1,
            block_x: 32,
            block_y: 1,
            block_z: 1,
            ..Launch::default()
        }
    }

    pub(crate) fn launch_run(ordinal: u64, samples: u64) -> LaunchRun {
        LaunchRun {
            ordinal,
            kernel_id: KernelId(ordinal),
            matched: Match::Reference,
            recorded: true,
            sample_count: Some(samples),
            ..LaunchRun::default()
        }
    }

    fn code_range(function: u64) -> CodeRange {
        CodeRange {
            function_id: FunctionId(function),
            module_id: ModuleId(1),
            name: format!("k{function}"),
            is_kernel: true,
            address: Address(0),
            code_bytes: 0,
            ordinal: 0,
        }
    }

    #[test]
    fn samples_of_all_processes_are_added_up_by_kernel_and_shape() {
        let folder = tempfile::TempDir::new().unwrap();
        write_run(
            &folder.path().join("run-pc_samples-1"),
            &[(1, 4, 30, None), (1, 8, 5, None), (2, 4, 20, None)],
        );
        write_run(&folder.path().join("run-pc_samples-2"), &[(2, 4, 25, None), (3, 4, 20, None)]);
        write_run(&folder.path().join("run-accesses-3"), &[(4, 4, 900, None)]);
        let found = kernels(folder.path(), 75).unwrap();
        let found: Vec<_> = found.iter().map(|kernel| (kernel.name.as_str(), kernel.shape[0])).collect();
        assert_eq!(found, [("k2", 4), ("k1", 4)]);
    }

    #[test]
    fn samples_at_a_coarse_period_stand_for_more_time() {
        let folder = tempfile::TempDir::new().unwrap();
        write_run(&folder.path().join("run-pc_samples-1"), &[(1, 4, 100, None), (2, 4, 30, Some(1024))]);
        let found = kernels(folder.path(), 50).unwrap();
        assert_eq!(found.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), ["k2"]);
    }
}
