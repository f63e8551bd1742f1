//! Rows for programs: each with its number, that of its parent, and every metric.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::error::ArrowError;
use clap::ValueEnum as _;

use super::cost::{LaunchCost, PairedCosts};
use super::draw::status;
use super::path::PathStep;
use super::row::{SignificantChange, TreeRow, TreeRowKind};
use stallmap_console::args::tree::TreeMetric;

/// The rows as a batch. For one metric, `self_` columns add up to the total over all rows, including hidden ones.
pub(super) fn batch(
    rows: &[TreeRow],
    steps: &[PathStep],
    metrics: &[TreeMetric],
    is_diff: bool,
) -> Result<RecordBatch, ArrowError> {
    let number = |number: usize| u64::try_from(number).ok();
    let mut columns: Vec<(String, ArrayRef)> = vec![
        ("row".into(), Arc::new((0..rows.len()).map(number).collect::<UInt64Array>())),
        (
            "parent_row".into(),
            Arc::new(rows.iter().map(|row| row.parent.and_then(number)).collect::<UInt64Array>()),
        ),
        ("depth".into(), Arc::new(rows.iter().map(|row| number(row.depth)).collect::<UInt64Array>())),
        (
            "kind".into(),
            Arc::new(rows.iter().map(|row| Some(kind(row.what, steps))).collect::<StringArray>()),
        ),
        ("name".into(), Arc::new(rows.iter().map(|row| Some(row.what.name(steps))).collect::<StringArray>())),
    ];
    if is_diff {
        let status = rows.iter().map(|row| status(&row.total)).collect::<StringArray>();
        columns.push(("status".into(), Arc::new(status)));
    }
    for (index, &metric) in metrics.iter().enumerate() {
        let mut add = |name: String, of: &dyn Fn(&TreeRow) -> Option<f64>| {
            columns.push((name, Arc::new(rows.iter().map(of).collect::<Float64Array>())));
        };
        let (name, value) = (name(metric), |cost: &LaunchCost| cost.value(metric));
        if is_diff {
            add(format!("{name}_before"), &|row| value(&row.total.before));
            add(format!("{name}_after"), &|row| value(&row.total.after));
            add(format!("{name}_change"), &|row| row.total.change(metric));
            let change = |own: &PairedCosts| own.change(metric);
            add(format!("self_{name}_change"), &|row| change(&row.own));
            let judged = |of: fn(&SignificantChange) -> Option<f64>| {
                move |row: &TreeRow| row.changes.get(index).and_then(of)
            };
            add(format!("{name}_ratio"), &judged(|change| change.ratio));
            add(format!("{name}_ratio_low"), &judged(|change| change.ratio_low));
            add(format!("{name}_ratio_high"), &judged(|change| change.ratio_high));
            add(format!("{name}_p"), &judged(|change| change.p));
            add(format!("{name}_before_variance"), &judged(|change| change.before_variance));
            add(format!("{name}_after_variance"), &judged(|change| change.after_variance));
            let verdict = |row: &TreeRow| row.changes.get(index).and_then(|change| change.verdict.clone());
            let verdicts = rows.iter().map(verdict).collect::<StringArray>();
            columns.push((format!("{name}_verdict"), Arc::new(verdicts)));
        } else {
            add(name.to_owned(), &|row| value(&row.total.after));
            add(format!("self_{name}"), &|row| value(&row.own.after));
        }
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
}

/// Kind of a row.
fn kind(what: TreeRowKind, steps: &[PathStep]) -> String {
    let level = match what {
        TreeRowKind::All => return "all".to_owned(),
        TreeRowKind::Hidden(..) => return "hidden".to_owned(),
        TreeRowKind::Step(step) => steps.get(step).and_then(|step| step.level.to_possible_value()),
    };
    level.map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// A metric's column.
const fn name(metric: TreeMetric) -> &'static str {
    match metric {
        TreeMetric::Samples => "samples",
        TreeMetric::MemorySamples => "memory_samples",
        TreeMetric::MemoryShare => "memory_share",
        TreeMetric::Time => "time_ns",
        TreeMetric::Launches => "launches",
        TreeMetric::TimePerLaunch => "time_per_launch_ns",
        TreeMetric::Flops => "flops",
        TreeMetric::FlopRate => "flops_per_second",
        TreeMetric::Bytes => "bytes",
        TreeMetric::ByteRate => "bytes_per_second",
    }
}
