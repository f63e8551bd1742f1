//! Call paths for a drawing: a limited number of nodes, with small ones aggregated next to their siblings.

use arrow::array::RecordBatch;
use clap::ValueEnum as _;

use super::cost::{Costs, Side};
use super::forest::{Forest, ROOT};
use super::path::paths;
use super::row::{Choice, What};
use super::{prune, read};
use stallmap_console::args::tree::{FrameName, Level, Metric, TreeSort};
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
pub fn graph(rows: &[RecordBatch], levels: &[Level], most_nodes: usize) -> Outcome<Vec<GraphNode>> {
    let paths = paths(&[(Side::After, read::launches(rows)?)], levels, FrameName::FileFunctionLine);
    let forest = Forest::of(&paths, false);
    let all = forest.nodes().get(ROOT).map(|root| root.total.after).unwrap_or_default();
    let has = |metric: &Metric| all.sum(*metric) > 0.0;
    let metric = [Metric::Samples, Metric::Time].into_iter().find(has).unwrap_or(Metric::Launches);
    let mut threshold = LEAST_SHARE;
    let rows = loop {
        let choice = Choice {
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
    let level = |what: What| match what {
        What::Step(step) => paths.steps.get(step).and_then(|step| step.level.to_possible_value()),
        What::All | What::Hidden(..) => None,
    };
    let node = |row: &super::row::Row| GraphNode {
        parent: row.parent,
        level: level(row.what).map(|level| level.get_name().to_owned()),
        name: row.what.name(&paths.steps),
        costs: costs(&row.total),
    };
    Ok(rows.iter().map(node).collect())
}

fn costs(total: &Costs) -> [f64; 4] {
    let cost = &total.after;
    [cost.samples, cost.memory_samples, cost.time_ns, cost.launches]
}
