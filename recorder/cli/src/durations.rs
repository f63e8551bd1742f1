//! Durations of launches that a timeline run has measured, for the sampling run behind it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use stallmap_config::durations::{FILE_NAME, KernelDurations};
use stallmap_config::{KernelShape, PassInstrument};
use stallmap_schema::capture::recording::{ActivityName, RawActivity};
use stallmap_schema::capture::segment::{FrameKind, SegmentFrame, SegmentReader};
use stallmap_schema::id::KernelId;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::word::ActivityKind;

use crate::hot::{rows, segments};

/// Shorter launches take few samples at any period.
const MIN_NS: u64 = 1_000_000;

/// Writes durations of the timeline runs in a recording's folder to a file in it, if there were such runs.
pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    let mut durations = KernelDurations::default();
    let segments = segments(folder, PassInstrument::Timeline)?;
    if segments.is_empty() {
        return Ok(());
    }
    for segment in segments {
        let process_ns = add_run(&segment, &mut durations);
        durations.run_ns = durations.run_ns.max(process_ns);
    }
    let path = folder.join(FILE_NAME);
    fs::write(&path, durations.to_json()?).with_context(|| format!("write `{}`", path.display()))
}

/// Adds the long launches of one process. Nodes of graphs are not sampled one by one. The time of all its kernels.
fn add_run(path: &Path, durations: &mut KernelDurations) -> u64 {
    // Finalizing reports a segment that cannot be read.
    let Ok(segment) = SegmentReader::open(path) else { return 0 };
    let mut run_ns = 0_u64;
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut launches: BTreeMap<KernelId, [u32; 6]> = BTreeMap::new();
    let mut calls: BTreeMap<u64, KernelId> = BTreeMap::new();
    let mut kernels: Vec<RawActivity> = Vec::new();
    for frame in segment.frames().iter().filter(|frame| frame.kind == Some(FrameKind::Rows)) {
        // Damaged rows cost their durations, not the recording.
        let Ok(SegmentFrame::Rows { table, batch }) = segment.read(frame) else { continue };
        names.extend(rows::<ActivityName>(&table, &batch).map(|row| (row.name_id, row.name)));
        launches.extend(rows::<Launch>(&table, &batch).map(|row| (row.kernel_id, shape(&row))));
        let of_call = |row: LaunchRun| Some((row.correlation_id?, row.kernel_id));
        calls.extend(rows::<LaunchRun>(&table, &batch).filter_map(of_call));
        for kernel in rows::<RawActivity>(&table, &batch).filter(|row| row.kind == ActivityKind::Kernel) {
            run_ns = run_ns.saturating_add(ns(&kernel));
            if kernel.graph_node_id.is_none() && ns(&kernel) >= MIN_NS {
                kernels.push(kernel);
            }
        }
    }
    for kernel in kernels {
        let shape = calls.get(&kernel.correlation_id).and_then(|launch| launches.get(launch));
        let name = kernel.name_id.and_then(|name_id| names.get(&name_id));
        if let Some((shape, name)) = shape.zip(name) {
            durations.add(KernelShape { name: name.clone(), shape: *shape }, ns(&kernel));
        }
    }
    run_ns
}

fn ns(kernel: &RawActivity) -> u64 {
    u64::try_from(kernel.end_ns.unwrap_or(kernel.begin_ns).saturating_sub(kernel.begin_ns)).unwrap_or(0)
}

fn shape(launch: &Launch) -> [u32; 6] {
    let &Launch { grid_x, grid_y, grid_z, block_x, block_y, block_z, .. } = launch;
    [grid_x, grid_y, grid_z, block_x, block_y, block_z]
}

#[cfg(test)]
mod tests {
    use stallmap_schema::capture::segment::{FILE_NAME as SEGMENT, SegmentWriter};
    use stallmap_schema::table::TableRow;

    use super::*;
    use crate::hot::tests::{launch, launch_run};

    fn kernel(correlation_id: u64, ns: i64, graph_node_id: Option<u64>) -> RawActivity {
        RawActivity {
            kind: ActivityKind::Kernel,
            correlation_id,
            graph_node_id,
            name_id: Some(7),
            context_number: 1,
            begin_ns: 10,
            end_ns: Some(10 + ns),
            device_id: Some(0),
            ..RawActivity::default()
        }
    }

    #[test]
    fn long_launches_are_known_by_kernel_and_shape_and_all_kernels_together() {
        let folder = tempfile::TempDir::new().unwrap();
        write(folder.path()).unwrap();
        assert!(!folder.path().join(FILE_NAME).exists(), "nothing was measured");
        let run = folder.path().join("run-timeline-1");
        fs::create_dir(&run).unwrap();
        let mut segment = SegmentWriter::create(&run.join(SEGMENT)).unwrap();
        let ms = 1_000_000;
        let kernels = [kernel(100, 3 * ms, None), kernel(101, ms / 2, None), kernel(100, 90 * ms, Some(4))];
        let calls =
            [0, 1].map(|ordinal| LaunchRun { correlation_id: Some(100 + ordinal), ..launch_run(ordinal, 0) });
        for (table, batch) in [
            (RawActivity::TABLE.name, RawActivity::batch(kernels)),
            (ActivityName::TABLE.name, ActivityName::batch([ActivityName { name_id: 7, name: "k".into() }])),
            (Launch::TABLE.name, Launch::batch([launch(0, 1, 4), launch(1, 1, 8)])),
            (LaunchRun::TABLE.name, LaunchRun::batch(calls)),
        ] {
            segment.append_batch(table, &batch.unwrap()).unwrap();
        }
        drop(segment);
        write(folder.path()).unwrap();
        let read =
            KernelDurations::from_json(&fs::read_to_string(folder.path().join(FILE_NAME)).unwrap()).unwrap();
        let longest = |grid| read.longest_ns("k", [grid, 1, 1, 32, 1, 1]);
        assert_eq!([4, 8].map(longest), [3_000_000, 0]);
        assert_eq!(read.run_ns, 93_500_000);
    }
}
