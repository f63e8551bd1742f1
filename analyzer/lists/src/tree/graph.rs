//! Call paths for a drawing: a limited number of nodes, with small ones aggregated next to their siblings.

use arrow::array::RecordBatch;
use clap::ValueEnum as _;

use super::cost::{CaptureSide, PairedCosts};
use super::forest::{PathForest, ROOT};
use super::path::paths;
use super::row::{RowChoice, TreeRowKind};
use super::{prune, read};
use stallmap_console::args::tree::{FrameName, TreeLevel, TreeMetric, TreeSort};
use stallmap_console::exit::Outcome;

/// Nodes with a smaller share of the total are aggregated, even if there is room.
const LEAST_SHARE: f64 = 0.000_5;
/// Growth factor of the share until the nodes are few enough.
const STEP: f64 = 1.6;

/// A node of the drawing. Children add up to their parent.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphNode {
    /// The node above, which comes before it. None for the root.
    pub parent: Option<usize>,
    /// The category of its name, as `--by` spells it. None for the root and for aggregated nodes.
    pub level: Option<String>,
    /// Its name.
    pub name: String,
    /// Samples, samples of memory stalls, nanoseconds, launches.
    pub costs: [f64; 4],
}

/// The call paths of the query's rows.
pub fn graph(rows: &[RecordBatch], levels: &[TreeLevel], most_nodes: usize) -> Outcome<Vec<GraphNode>> {
    let paths = paths(&[(CaptureSide::After, read::launches(rows)?)], levels, FrameName::FileFunctionLine);
    let forest = PathForest::from_paths(&paths, false);
    let all = forest.nodes().get(ROOT).map(|root| root.total.after).unwrap_or_default();
    let has = |metric: &TreeMetric| all.sum(*metric) > 0.0;
    let metric =
        [TreeMetric::Samples, TreeMetric::Time].into_iter().find(has).unwrap_or(TreeMetric::Launches);
    let mut threshold = LEAST_SHARE;
    let rows = loop {
        let choice = RowChoice {
            include: None,
            exclude: None,
            threshold,
            depth: usize::MAX,
            top: usize::MAX,
            metric,
            sort: TreeSort::Metric(metric),
            is_diff: false,
        };
        let rows = prune::rows(&forest, &paths.steps, &choice);
        if rows.len() <= most_nodes || threshold > 1.0 {
            break rows;
        }
        threshold *= STEP;
    };
    let level = |what: TreeRowKind| match what {
        TreeRowKind::Step(step) => paths.steps.get(step).and_then(|step| step.level.to_possible_value()),
        TreeRowKind::All | TreeRowKind::Hidden(..) => None,
    };
    let node = |row: &super::row::TreeRow| GraphNode {
        parent: row.parent,
        level: level(row.what).map(|level| level.get_name().to_owned()),
        name: row.what.name(&paths.steps),
        costs: costs(&row.total),
    };
    Ok(rows.iter().map(node).collect())
}

fn costs(total: &PairedCosts) -> [f64; 4] {
    let cost = &total.after;
    [cost.samples, cost.memory_samples, cost.time_ns, cost.launches]
}
