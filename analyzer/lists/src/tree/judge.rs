//! Significance of nodes: their sums as a table, and the query in `sql/diff` over it.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch};
use stallmap::library::queries;
use stallmap::session::Session;

use super::cost::{LaunchCost, PairedCosts};
use super::row::{SignificantChange, TreeRow};
use stallmap_console::answer;
use stallmap_console::args::tree::TreeMetric;
use stallmap_console::exit::{CommandFailure, Outcome, QUERY};
use stallmap_console::explain::arrow_failure;
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

/// The table that the query reads.
const TABLE: &str = "tree_node";

/// Nodes, and the parameters of their comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct JudgeQuery<'a> {
    /// The nodes of the false discovery rate, the root first.
    pub(super) family: &'a [PairedCosts],
    /// The metrics.
    pub(super) metrics: &'a [TreeMetric],
    /// Variation of a launch between repetitions, if unknown.
    pub(super) spread: f64,
}

/// One node by one metric.
struct JudgedEntry {
    /// Its row.
    shown: Option<usize>,
    /// True for the root.
    is_whole: bool,
    metric: usize,
    costs: PairedCosts,
}

/// Computes the change of each row.
pub(super) async fn judge(
    session: &Session,
    query: &str,
    rows: &mut [TreeRow],
    question: JudgeQuery<'_>,
) -> Outcome<()> {
    let batch = table(&entries(rows, question), question).map_err(arrow_failure)?;
    session.context().register_batch(TABLE, batch).map_err(|error| CommandFailure::new(QUERY, error))?;
    for row in rows.iter_mut() {
        row.changes = vec![SignificantChange::default(); question.metrics.len()];
    }
    for judged in
        JudgedNode::read(queries::diff::TREE_NODES.name, &answer::fresh_rows(session, query).await?)?
    {
        let Some((place, metric)) = judged.place() else { continue };
        let found = rows.get_mut(place).and_then(|row| row.changes.get_mut(metric));
        *found
            .ok_or_else(|| CommandFailure::message(QUERY, format!("there is no row {place}, {metric}")))? =
            judged.change();
    }
    Ok(())
}

fn entries(rows: &[TreeRow], question: JudgeQuery<'_>) -> Vec<JudgedEntry> {
    let mut entries = Vec::new();
    for metric in 0..question.metrics.len() {
        let family = question.family.iter().enumerate();
        entries.extend(family.map(|(place, &costs)| JudgedEntry {
            shown: None,
            is_whole: place == 0,
            metric,
            costs,
        }));
        let shown = rows.iter().enumerate();
        entries.extend(shown.map(|(place, row)| JudgedEntry {
            shown: Some(place),
            is_whole: false,
            metric,
            costs: row.total,
        }));
    }
    entries
}

fn table(entries: &[JudgedEntry], question: JudgeQuery<'_>) -> Result<RecordBatch, arrow::error::ArrowError> {
    let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let flags = |of: &dyn Fn(&JudgedEntry) -> bool| -> ArrayRef {
        Arc::new(entries.iter().map(|entry| Some(of(entry))).collect::<BooleanArray>())
    };
    let numbers = |of: &dyn Fn(&JudgedEntry, TreeMetric) -> f64| -> ArrayRef {
        let value = |entry: &JudgedEntry| question.metrics.get(entry.metric).map(|&metric| of(entry, metric));
        Arc::new(entries.iter().map(value).collect::<Float64Array>())
    };
    let side = |of: fn(&LaunchCost, TreeMetric) -> f64| {
        [
            numbers(&|entry, metric| of(&entry.costs.before, metric)),
            numbers(&|entry, metric| of(&entry.costs.after, metric)),
        ]
    };
    let [base_value, value] = side(LaunchCost::sum);
    let [base_exposure, exposure] = side(LaunchCost::exposure);
    let [base_variance, variance] = side(|cost, metric| cost.chances.for_metric(metric).variance);
    let [base_squares, squares] = side(|cost, metric| cost.chances.for_metric(metric).squares);
    let both = |of: fn(&LaunchCost, TreeMetric) -> f64| {
        numbers(&|entry, metric| of(&entry.costs.before, metric) + of(&entry.costs.after, metric))
    };
    let place = entries.iter().map(|entry| entry.shown.map(whole)).collect::<Int64Array>();
    let metric = entries.iter().map(|entry| Some(whole(entry.metric))).collect::<Int64Array>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("place", Arc::new(place)),
        ("metric", Arc::new(metric)),
        ("is_whole", flags(&|entry| entry.is_whole)),
        ("is_family", flags(&|entry| entry.shown.is_none())),
        ("is_shown", flags(&|entry| entry.shown.is_some())),
        ("spread", numbers(&|_, _| question.spread)),
        ("base_value", base_value),
        ("value", value),
        ("base_exposure", base_exposure),
        ("exposure", exposure),
        ("base_variance", base_variance),
        ("variance", variance),
        ("base_squares", base_squares),
        ("squares", squares),
        ("freedom", both(|cost, metric| cost.chances.for_metric(metric).freedom)),
        ("pearson", both(|cost, metric| cost.chances.for_metric(metric).pearson)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
}

rows! {
    /// A row of the query: a node by one metric.
    struct JudgedNode {
        place: Option<u64>,
        metric: Option<u64>,
        verdict: Option<String>,
        p: Option<f64>,
        ratio: Option<f64>,
        ratio_low: Option<f64>,
        ratio_high: Option<f64>,
        base_variance: Option<f64>,
        variance: Option<f64>,
    }
}

impl JudgedNode {
    /// The row of the tree and the number of the metric; none where the node is not shown.
    fn place(&self) -> Option<(usize, usize)> {
        Some((usize::try_from(self.place?).ok()?, usize::try_from(self.metric?).ok()?))
    }

    fn change(self) -> SignificantChange {
        SignificantChange {
            verdict: self.verdict,
            p: self.p,
            ratio: self.ratio,
            ratio_low: self.ratio_low,
            ratio_high: self.ratio_high,
            before_variance: self.base_variance,
            after_variance: self.variance,
        }
    }
}
