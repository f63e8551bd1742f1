//! Series: one thing in the captures of one model, branch, program, rank and GPU, in the order of time.

use arrow::array::RecordBatch;
use stallmap_console::args::trend::{TrendMetric, TrendSubject};
use stallmap_console::exit::Outcome;
use stallmap_console::output::number::{measured, nanoseconds};
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

rows! {
    /// A row of the view `trend`.
    #[derive(Clone, Debug)]
    pub(crate) struct TrendRow {
        pub(crate) name: String,
        pub(crate) series: String,
        pub(crate) model: Option<String>,
        pub(crate) branch: Option<String>,
        pub(crate) program: Option<String>,
        pub(crate) rank: Option<u32>,
        pub(crate) gpu: Option<String>,
        pub(crate) capture: String,
        pub(crate) commit: Option<String>,
        pub(crate) value: f64,
        pub(crate) expected: Option<f64>,
        pub(crate) low: Option<f64>,
        pub(crate) high: Option<f64>,
        pub(crate) later: f64,
        pub(crate) change: Option<f64>,
        pub(crate) is_change: bool,
    }
}

/// The points of a series, from one or more.
#[derive(Clone, Debug)]
pub(crate) struct TrendSeries {
    pub(crate) points: Vec<TrendRow>,
}

/// The statement of a subject and a metric, in the order of series.
pub(crate) fn statement(subject: TrendSubject, metric: TrendMetric) -> String {
    format!(
        "SELECT name, series, model, branch, program, rank, gpu, capture, commit, time, value, history, expected, low, high, later, change, is_change\n\
         FROM trend\n\
         WHERE metric = '{}' AND kind = '{}'\n\
         ORDER BY series, model, branch, program, rank, gpu, point;\n",
        metric.name(),
        subject.kind()
    )
}

/// Rows of [`statement`] as series: the costliest first, by their last values.
pub(crate) fn all(rows: &[RecordBatch]) -> Outcome<Vec<TrendSeries>> {
    let mut all: Vec<TrendSeries> = Vec::new();
    for point in TrendRow::read("trend", rows)? {
        match all.last_mut().filter(|series| series.points.last().is_some_and(|last| last.is_like(&point))) {
            Some(series) => series.points.push(point),
            None => all.push(TrendSeries { points: vec![point] }),
        }
    }
    all.sort_by(|one, other| other.last_value().total_cmp(&one.last_value()));
    Ok(all)
}

/// A number of a metric, as text.
pub(crate) fn shown(metric: TrendMetric, value: f64) -> String {
    if metric == TrendMetric::Time { nanoseconds(value) } else { measured(value) }
}

impl TrendRow {
    /// True for a point of the same series.
    fn is_like(&self, other: &Self) -> bool {
        (&self.series, &self.model, &self.branch, &self.program, self.rank, &self.gpu)
            == (&other.series, &other.model, &other.branch, &other.program, other.rank, &other.gpu)
    }

    /// The commit, else the capture.
    pub(crate) fn label(&self) -> &str {
        self.commit.as_deref().unwrap_or(&self.capture)
    }
}

impl TrendSeries {
    /// The newest value.
    pub(crate) fn last_value(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.value)
    }

    /// The points where it changed.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &TrendRow> {
        self.points.iter().filter(|point| point.is_change)
    }

    /// The name in the newest capture.
    pub(crate) fn name(&self) -> &str {
        self.points.last().map_or("", |point| &point.name)
    }

    /// The model, branch, program, rank and GPU that it is of, those that are known.
    pub(crate) fn origin(&self) -> String {
        let Some(point) = self.points.last() else { return String::new() };
        let rank = point.rank.map(|rank| format!("rank {rank}"));
        let parts =
            [point.model.clone(), point.branch.clone(), point.program.clone(), rank, point.gpu.clone()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
