//! Reads launches from the rows of the query.

use std::collections::HashMap;

use arrow::array::RecordBatch;

use stallmap::library::queries;
use stallmap_console::exit::Outcome;
use stallmap_console::row::{QueryRow as _, TextList};
use stallmap_console::rows;

use super::chance::{SumVariance, SumVariances};
use super::cost::{GivenWork, LaunchCost};
use super::path::{LayerShare, PathLaunch};

rows! {
    /// A launch as the query gives it.
    struct TreeLaunchRow {
        frames: TextList,
        user_frames: TextList,
        forward_frames: TextList,
        ops: TextList,
        ranges: TextList,
        module_path: Option<String>,
        phase: Option<String>,
        step: Option<String>,
        kernel: Option<String>,
        samples: Option<f64>,
        memory_samples: Option<f64>,
        time_ns: Option<f64>,
        flops: Option<f64>,
        flops_ns: Option<f64>,
        bytes: Option<f64>,
        bytes_ns: Option<f64>,
        kernel_id: u64,
        is_program_launch: bool,
    }

    /// A layer that a launch works for.
    struct TreeLayerRow {
        kernel_id: u64,
        layer_kind: Option<String>,
        layer: Option<String>,
        weight: f64,
    }

    /// Variances of its numbers. Only a comparison needs them.
    struct LaunchVariances {
        samples_variance: Option<f64>,
        samples_freedom: Option<f64>,
        samples_pearson: Option<f64>,
        memory_variance: Option<f64>,
        memory_freedom: Option<f64>,
        memory_pearson: Option<f64>,
        time_variance: Option<f64>,
        time_freedom: Option<f64>,
        time_pearson: Option<f64>,
    }
}

/// The launches of the query's rows.
pub(super) fn launches(rows: &[RecordBatch]) -> Outcome<Vec<PathLaunch>> {
    let name = queries::tree::LAUNCHES.name;
    let compares = rows.iter().any(|batch| batch.column_by_name("samples_variance").is_some());
    let uncertain = if compares { LaunchVariances::read(name, rows)? } else { Vec::new() };
    let found = TreeLaunchRow::read(name, rows)?.into_iter().enumerate();
    Ok(found.map(|(at, found)| launch(found, uncertain.get(at))).collect())
}

/// Gives the launches their layers.
pub(super) fn attach_layers(launches: &mut [PathLaunch], rows: &[RecordBatch]) -> Outcome<()> {
    let mut layers: HashMap<u64, Vec<LayerShare>> = HashMap::new();
    for row in TreeLayerRow::read(queries::tree::LAYERS.name, rows)? {
        let (kind, layer) = (row.layer_kind.unwrap_or_default(), row.layer.unwrap_or_default());
        let share = LayerShare::from_names(kind, layer, row.weight);
        layers.entry(row.kernel_id).or_default().push(share);
    }
    for launch in launches {
        launch.layers = layers.remove(&launch.kernel_id).unwrap_or_default();
    }
    Ok(())
}

fn launch(found: TreeLaunchRow, uncertain: Option<&LaunchVariances>) -> PathLaunch {
    // What is not known adds nothing.
    let samples = found.samples.unwrap_or_default();
    let mut cost = LaunchCost {
        samples,
        memory_samples: found.memory_samples.unwrap_or_default(),
        time_ns: found.time_ns.unwrap_or_default(),
        launches: f64::from(u8::from(found.is_program_launch)),
        flops: work(found.flops, found.flops_ns),
        bytes: work(found.bytes, found.bytes_ns),
        chances: SumVariances::default(),
    };
    cost.chances = uncertain.map(|uncertain| chances(&cost, uncertain)).unwrap_or_default();
    PathLaunch {
        kernel_id: found.kernel_id,
        sites: Vec::new(),
        layers: Vec::new(),
        frames: found.frames.0,
        user_frames: found.user_frames.0,
        forward_frames: found.forward_frames.0,
        module: found
            .module_path
            .map(|path| path.split('.').map(str::to_owned).collect())
            .unwrap_or_default(),
        phase: found.phase,
        step: found.step.map(|step| format!("step {step}")),
        ranges: found.ranges.0,
        ops: found.ops.0,
        kernel: found.kernel,
        cost,
        lacks_time: samples > 0.0 && found.time_ns.is_none(),
    }
}

fn work(work: Option<f64>, time_ns: Option<f64>) -> GivenWork {
    GivenWork { work: work.unwrap_or_default(), time_ns: time_ns.unwrap_or_default() }
}

fn chances(cost: &LaunchCost, row: &LaunchVariances) -> SumVariances {
    let of = |value: f64, variance: Option<f64>, freedom: Option<f64>, pearson: Option<f64>| {
        let variance = variance.unwrap_or_default();
        SumVariance {
            variance,
            // Exact values have no variation.
            squares: if variance > 0.0 { value * value } else { 0.0 },
            freedom: freedom.unwrap_or_default(),
            pearson: pearson.unwrap_or_default(),
        }
    };
    SumVariances {
        samples: of(cost.samples, row.samples_variance, row.samples_freedom, row.samples_pearson),
        memory: of(cost.memory_samples, row.memory_variance, row.memory_freedom, row.memory_pearson),
        time: of(cost.time_ns, row.time_variance, row.time_freedom, row.time_pearson),
    }
}
