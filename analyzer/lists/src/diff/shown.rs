//! A comparison as a page shows it: sentences, changes by part, facts that differ, gates.

use std::mem::take;

use stallmap::library::queries::diff as queries;
use stallmap::location::Location;
use stallmap::session::Session;
use stallmap_console::answer::Answer;
use stallmap_console::args::diff::{Diff, Part};
use stallmap_console::context::{Context, runtime};
use stallmap_console::exit::Outcome;
use stallmap_console::output::progress::Progress;
use stallmap_console::row::Row as _;

use super::fact::Fact;
use super::found::Changes;
use super::row::Row;
use super::verdict::LineKernel;
use super::{Comparison, draw, named, screen, verdict, write};

/// Parts of a page.
const PARTS: [Part; 3] = [Part::Lines, Part::Kernels, Part::Tensors];

/// A comparison.
pub struct Shown {
    /// The captures by name, the first is the base.
    pub captures: Vec<(String, Location)>,
    /// One sentence for each capture after the first.
    pub sentences: Vec<String>,
    /// Title of the metric, such as `time`.
    pub metric: String,
    /// Changes by part: lines, kernels, tensors.
    pub parts: Vec<Changed>,
    /// Facts that differ.
    pub facts: Vec<Difference>,
    /// Conditions, and true for each that holds.
    pub gates: Vec<(String, bool)>,
    /// Reasons why conditions hold.
    pub failures: Vec<String>,
    /// Title and text of the statements of facts and totals.
    pub queries: Vec<(String, String)>,
}

/// Changes of one part.
pub struct Changed {
    /// Its title.
    pub title: &'static str,
    /// Its statements.
    pub sql: String,
    /// The changes that are significant, and sums of others.
    pub rows: Vec<Change>,
}

/// One change.
pub struct Change {
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
pub struct Difference {
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
pub fn shown(context: &Context, args: &Diff) -> Outcome<Shown> {
    let captures = named(&args.captures);
    let session = {
        let _progress = Progress::start("opening the captures");
        context.open(&captures)?
    };
    let captures = captures.into_iter().map(|(name, path)| (name.unwrap_or_default(), path)).collect();
    runtime()?.block_on(compare(args, &session, captures))
}

async fn compare(args: &Diff, session: &Session, captures: Vec<(String, Location)>) -> Outcome<Shown> {
    let progress = Progress::of(session.work(), "comparing facts");
    let names = captures.iter().map(|(name, _)| name.clone()).collect();
    let (comparison, facts) = Comparison::begin(args, session, names, &PARTS).await?;
    if let Some(refusal) = comparison.refusal() {
        return Err(comparison.refused(&refusal));
    }
    progress.say("comparing costs");
    let mut statements = comparison.tables(&PARTS);
    statements.push(comparison.line_kernels());
    let mut costs = comparison.answers(statements).await?;
    let kernels = costs.pop().map(|answer| LineKernel::read(queries::LINE_KERNELS.name, &answer.rows));
    let mut kernels = kernels.transpose()?.unwrap_or_default();
    let tables = costs.split_off(1);
    let headlines = comparison.headlines(&Row::read(queries::COMPARE.name, &costs[0].rows)?).await?;
    let mut parts = Vec::new();
    for (part, answer) in PARTS.into_iter().zip(tables) {
        let kernels = if part == Part::Lines { take(&mut kernels) } else { Vec::new() };
        let rows = Row::read(queries::COMPARE.name, &answer.rows)?;
        parts.push(changed(&comparison, answer, &Changes { rows, kernels }));
    }
    let gates = comparison.judged().await?;
    let query = |answer: &Answer| (answer.section.title().to_owned(), answer.sql.clone());
    Ok(Shown {
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

fn changed(comparison: &Comparison<'_>, answer: Answer, changes: &Changes) -> Changed {
    let unit = write::unit(comparison.measure());
    let rows = changes.rows.iter().map(|row| change(changes, row, unit)).collect();
    Changed { title: answer.section.title(), sql: answer.sql, rows }
}

fn change(changes: &Changes, row: &Row, unit: draw::Unit) -> Change {
    let kernels = [("added", "new"), ("removed", "gone")]
        .into_iter()
        .filter_map(|(status, word)| Some(format!("{word}: {}", screen::kernels(changes, row, status)?)));
    Change {
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

fn difference(fact: &Fact) -> Difference {
    Difference {
        name: fact.name.clone(),
        base: fact.base_value.clone(),
        value: fact.value.clone(),
        meaning: fact.meaning.clone().unwrap_or_default(),
    }
}
