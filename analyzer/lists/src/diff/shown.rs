//! A comparison as a page shows it: sentences, changes by part, facts that differ, gates.

use std::mem::take;

use stallmap::library::queries::diff as queries;
use stallmap::location::CaptureLocation;
use stallmap::session::Session;
use stallmap_console::answer::SectionAnswer;
use stallmap_console::args::diff::{DiffArgs, DiffPart};
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::Outcome;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::row::QueryRow as _;

use super::fact::CaptureFact;
use super::found::PartChanges;
use super::row::CompareRow;
use super::verdict::DiffLineKernel;
use super::{CaptureComparison, draw, named, screen, verdict, write};

/// Parts of a page.
const PARTS: [DiffPart; 3] = [DiffPart::Lines, DiffPart::Kernels, DiffPart::Tensors];

/// A comparison.
pub struct ShownComparison {
    /// The captures by name, the first is the base.
    pub captures: Vec<(String, CaptureLocation)>,
    /// One sentence for each capture after the first.
    pub sentences: Vec<String>,
    /// Title of the metric, such as `time`.
    pub metric: String,
    /// Changes by part: lines, kernels, tensors.
    pub parts: Vec<ChangedPart>,
    /// Facts that differ.
    pub facts: Vec<FactDifference>,
    /// Conditions, and true for each that holds.
    pub gates: Vec<(String, bool)>,
    /// Reasons why conditions hold.
    pub failures: Vec<String>,
    /// Title and text of the statements of facts and totals.
    pub queries: Vec<(String, String)>,
}

/// Changes of one part.
pub struct ChangedPart {
    /// Its title.
    pub title: &'static str,
    /// Its statements.
    pub sql: String,
    /// The changes that are significant, and sums of others.
    pub rows: Vec<MetricChange>,
}

/// One change.
pub struct MetricChange {
    /// The other capture.
    pub capture: String,
    /// The row in the other capture, as queries name it.
    pub what: String,
    /// The row in the base, if its name is different.
    pub was: Option<String>,
    /// The row with its details, and its earlier name.
    pub name: String,
    /// Both values with their unit.
    pub values: String,
    /// The change in percent, `new`, `gone`, or `~` if it is not significant.
    pub change: String,
    /// The 95 % confidence interval. Empty for exact values.
    pub interval: String,
    /// The ratio. None if the base has nothing.
    pub ratio: Option<f64>,
    /// True if the change is not significant.
    pub is_noise: bool,
    /// Kernels that a line gained and lost: `new: ...`, `gone: ...`.
    pub kernels: Vec<String>,
}

/// A fact that differs.
pub struct FactDifference {
    /// Its name.
    pub name: String,
    /// In the base.
    pub base: String,
    /// In the other capture.
    pub value: String,
    /// Its consequence.
    pub meaning: String,
}

/// Compares the captures.
///
/// # Errors
/// Fails if they are not comparable, and if a query fails.
pub fn shown(context: &CommandContext, args: &DiffArgs) -> Outcome<ShownComparison> {
    let captures = named(&args.captures);
    let session = {
        let _progress = ProgressSpinner::start("opening the captures");
        context.open(&captures)?
    };
    let captures = captures.into_iter().map(|(name, path)| (name.unwrap_or_default(), path)).collect();
    runtime()?.block_on(compare(args, &session, captures))
}

async fn compare(
    args: &DiffArgs,
    session: &Session,
    captures: Vec<(String, CaptureLocation)>,
) -> Outcome<ShownComparison> {
    let progress = ProgressSpinner::for_work(session.work(), "comparing facts");
    let names = captures.iter().map(|(name, _)| name.clone()).collect();
    let (comparison, facts) = CaptureComparison::begin(args, session, names, &PARTS).await?;
    if let Some(refusal) = comparison.refusal() {
        return Err(comparison.refused(&refusal));
    }
    progress.say("comparing costs");
    let mut statements = comparison.tables(&PARTS);
    statements.push(comparison.line_kernels());
    let mut costs = comparison.answers(statements).await?;
    let kernels = costs.pop().map(|answer| DiffLineKernel::read(queries::LINE_KERNELS.name, &answer.rows));
    let mut kernels = kernels.transpose()?.unwrap_or_default();
    let tables = costs.split_off(1);
    let headlines = comparison.headlines(&CompareRow::read(queries::COMPARE.name, &costs[0].rows)?).await?;
    let mut parts = Vec::new();
    for (part, answer) in PARTS.into_iter().zip(tables) {
        let kernels = if part == DiffPart::Lines { take(&mut kernels) } else { Vec::new() };
        let rows = CompareRow::read(queries::COMPARE.name, &answer.rows)?;
        parts.push(changed(&comparison, answer, &PartChanges { rows, kernels }));
    }
    let gates = comparison.judged().await?;
    let query = |answer: &SectionAnswer| (answer.section.title().to_owned(), answer.sql.clone());
    Ok(ShownComparison {
        captures,
        sentences: headlines.into_iter().map(|headline| headline.sentence).collect(),
        metric: comparison.measure().title().to_owned(),
        parts,
        facts: comparison.facts.iter().filter(|fact| fact.verdict != "same").map(difference).collect(),
        gates: gates.iter().map(|gate| (gate.condition.clone(), gate.failure.is_some())).collect(),
        failures: gates.into_iter().filter_map(|gate| gate.failure).collect(),
        queries: std::iter::once(&facts).chain(&costs).map(query).collect(),
    })
}

fn changed(comparison: &CaptureComparison<'_>, answer: SectionAnswer, changes: &PartChanges) -> ChangedPart {
    let unit = write::unit(comparison.measure());
    let rows = changes.rows.iter().map(|row| change(changes, row, unit)).collect();
    ChangedPart { title: answer.section.title(), sql: answer.sql, rows }
}

fn change(changes: &PartChanges, row: &CompareRow, unit: draw::DiffUnit) -> MetricChange {
    let kernels = [("added", "new"), ("removed", "gone")]
        .into_iter()
        .filter_map(|(status, word)| Some(format!("{word}: {}", screen::kernels(changes, row, status)?)));
    MetricChange {
        capture: row.capture.clone(),
        what: row.what.clone(),
        was: row.was.clone(),
        name: screen::place(row),
        values: verdict::range(row, unit),
        change: screen::change(row),
        interval: verdict::interval(row).unwrap_or_default(),
        ratio: row.ratio,
        is_noise: row.is_noise(),
        kernels: kernels.collect(),
    }
}

fn difference(fact: &CaptureFact) -> FactDifference {
    FactDifference {
        name: fact.name.clone(),
        base: fact.base_value.clone(),
        value: fact.value.clone(),
        meaning: fact.meaning.clone().unwrap_or_default(),
    }
}
