//! `stallmap diff`: costs of captures next to each other, their comparability, and significant changes.

mod ask;
mod draw;
mod fact;
mod found;
mod gate;
mod github;
mod judge;
mod markdown;
mod query;
mod row;
mod row_gate;
mod sarif;
mod screen;
mod shown;
mod verdict;
mod write;

use arrow::array::RecordBatch;
use stallmap::location::CaptureLocation;
use stallmap::session::Session;

use self::ask::{ask, ask_all, keep_views};
use self::fact::{CaptureFact, FactDecision};
use self::found::{ComparisonResult, PartChanges};
use self::query::{DiffMeasure, DiffQuery, QueryScript, keys};
use self::row::CompareRow;
pub use self::shown::{ChangedPart, FactDifference, MetricChange, ShownComparison, shown};
use self::verdict::{DiffLineKernel, MetricWords, StepLength, TotalChange, WorkShare};
use stallmap::library::queries::{self as library, diff as queries};
use stallmap_console::answer::SectionAnswer;
use stallmap_console::args::diff::{DiffArgs, DiffDivisor, DiffFormat, DiffMetric, DiffPart};
use stallmap_console::args::filter::ProgramPhase;
use stallmap_console::args::named::NamedCapture;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, GATE, NOT_COMPARABLE, OK, Outcome, USAGE};
use stallmap_console::output;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::row::QueryRow as _;

/// The parts compared by default.
const PARTS: [DiffPart; 5] =
    [DiffPart::Tensors, DiffPart::Roles, DiffPart::Lines, DiffPart::Ops, DiffPart::Kernels];

/// Variation of a launch between repetitions, where none were recorded: the option's default.
const SPREAD: f64 = 0.05;

/// The row of launches without a Python line, in `sql/queries/diff/lines.sql`.
const NO_LINE: &str = "(no Python line)";

/// Statements of a section.
type SectionStatements = (library::CommandQuery, QueryScript);

/// A comparison under way.
struct CaptureComparison<'a> {
    args: &'a DiffArgs,
    session: &'a Session,
    query: DiffQuery,
    /// Statements that compare the facts.
    script: QueryScript,
    decision: FactDecision,
    facts: Vec<CaptureFact>,
    metric: DiffMetric,
}

/// Compares, prints, and judges.
pub fn run(context: &CommandContext, args: &DiffArgs) -> Outcome {
    let parts = parts(args)?;
    let captures = named(&args.captures);
    let names: Vec<String> = captures.iter().filter_map(|(name, _)| name.clone()).collect();
    let session = {
        let _progress = ProgressSpinner::start("opening the captures");
        context.open(&captures)?
    };
    runtime()?.block_on(compare(args, &session, names, &parts))
}

/// The sections of a comparison of open captures with their rows, for other programs.
///
/// # Errors
/// Fails if the captures are not comparable, and if a query fails.
pub async fn sections(session: &Session, args: &DiffArgs) -> Outcome<Vec<SectionAnswer>> {
    let parts = parts(args)?;
    let names = session.captures().iter().map(|capture| capture.name.clone()).collect();
    let (comparison, facts) = CaptureComparison::begin(args, session, names, &parts).await?;
    if let Some(refusal) = comparison.refusal() {
        return Err(comparison.refused(&refusal));
    }
    let mut answers = vec![facts];
    answers.extend(comparison.answers(comparison.tables(&parts)).await?);
    Ok(answers)
}

/// A comparison of one part, for programs.
pub struct ComparedPart {
    /// Facts that decide whether the captures are comparable.
    pub facts: SectionAnswer,
    /// The changes, or the reason for none.
    pub part: Result<SectionAnswer, String>,
}

/// Compares one part of the captures of a session, each with the first.
pub async fn compared(
    session: &Session,
    part: DiffPart,
    metric: DiffMetric,
    top: u32,
) -> Outcome<ComparedPart> {
    let names = session.captures().iter().map(|capture| capture.name.clone()).collect();
    let mut query =
        DiffQuery { names, per: DiffDivisor::Auto, top, is_all: false, spread: SPREAD, phase: None };
    let script = query.comparable(metric);
    let found = ask(session, &script).await?;
    let facts = CaptureFact::read(queries::COMPARABLE.name, &found)?;
    let decision = FactDecision::from_facts(&facts, DiffDivisor::Auto);
    query.compare_per(decision.per, DiffDivisor::Auto);
    let base = query.names.first().map_or("", String::as_str);
    let refusal = fact::refusal(&facts, base);
    let facts =
        SectionAnswer { section: queries::COMPARABLE, sql: script.text(), rows: found, absence: None };
    if let Some(refusal) = refusal {
        return Ok(ComparedPart { facts, part: Err(refusal) });
    }
    let script = query.part(part, decision.measure(metric));
    let rows = ask(session, &script).await?;
    Ok(ComparedPart {
        facts,
        part: Ok(SectionAnswer { section: keys(part), sql: script.text(), rows, absence: None }),
    })
}

async fn compare(args: &DiffArgs, session: &Session, names: Vec<String>, parts: &[DiffPart]) -> Outcome {
    let progress = ProgressSpinner::for_work(session.work(), "comparing facts");
    let parts = if is_tables(args, &names) { parts } else { &[DiffPart::Lines] };
    let (comparison, facts) = CaptureComparison::begin(args, session, names, parts).await?;
    if let Some(phase) = comparison.query.phase {
        let name = phase.name();
        let all = if args.phase.is_none() { ", `--phase all` compares the whole run" } else { "" };
        output::note(format_args!(
            "only launches of `--phase {name}` are compared{all}. Facts are of the whole captures"
        ));
    }
    if args.sql {
        drop(progress);
        return comparison.print_sql(parts);
    }
    let subject = comparison.subject();
    if let Some(refusal) = comparison.refusal() {
        drop(progress);
        if args.format() == DiffFormat::Text {
            write::tables(&subject, &[facts])?;
        }
        return Err(comparison.refused(&refusal));
    }
    let found = comparison.find(facts, parts, &progress).await?;
    drop(progress);
    write::write(&subject, &found)?;
    let failures: Vec<&String> = found.gates.iter().filter_map(|gate| gate.failure.as_ref()).collect();
    failures.iter().for_each(output::note);
    Ok(if failures.is_empty() { OK } else { GATE })
}

impl<'a> CaptureComparison<'a> {
    /// Compares the facts of captures. The other value is the section that shows them. Without a metric, time is
    /// compared, or samples if the captures do not know time alike. The views of `parts` are computed next to those of
    /// the facts.
    async fn begin(
        args: &'a DiffArgs,
        session: &'a Session,
        names: Vec<String>,
        parts: &[DiffPart],
    ) -> Outcome<(Self, SectionAnswer)> {
        let phase = args.phase.filter(|phase| *phase != ProgramPhase::All);
        let query =
            DiffQuery { names, per: args.per, top: args.rows, is_all: args.all, spread: args.spread, phase };
        let metric = args.metric.unwrap_or(DiffMetric::Time);
        let facts = query.comparable(metric);
        if !args.sql && session.remembered_script(&facts.text()).is_none() {
            let measure = DiffMeasure { metric, is_scaled: false };
            let costs = parts.iter().map(|&part| query.part(part, measure));
            let scripts: Vec<QueryScript> = costs.chain([facts, query.totals(&[])]).collect();
            keep_views(session, &scripts.iter().collect::<Vec<_>>()).await?;
        }
        let (comparison, facts) = Self::with_metric(args, session, query.clone(), metric).await?;
        if args.metric.is_none() && comparison.refusal().is_some() {
            for other in [DiffMetric::Samples, DiffMetric::Launches] {
                let (other, facts) = Self::with_metric(args, session, query.clone(), other).await?;
                if other.refusal().is_none() {
                    return Ok((other, facts));
                }
            }
        }
        Ok((comparison, facts))
    }

    async fn with_metric(
        args: &'a DiffArgs,
        session: &'a Session,
        mut query: DiffQuery,
        metric: DiffMetric,
    ) -> Outcome<(Self, SectionAnswer)> {
        let script = query.comparable(metric);
        let rows = ask(session, &script).await?;
        let facts = CaptureFact::read(queries::COMPARABLE.name, &rows)?;
        let decision = FactDecision::from_facts(&facts, args.per);
        let is_chosen = args.phase.is_some();
        query.compare_per(decision.per, if is_chosen { decision.per } else { args.per });
        let section = SectionAnswer { section: queries::COMPARABLE, sql: script.text(), rows, absence: None };
        Ok((Self { args, session, query, script, decision, facts, metric }, section))
    }

    /// Reason why the captures are not comparable.
    fn refusal(&self) -> Option<String> {
        let base = self.query.names.first().map_or("", String::as_str);
        if self.args.force { None } else { fact::refusal(&self.facts, base) }
    }

    fn refused(&self, refusal: &str) -> CommandFailure {
        let metric = self.metric.name();
        let what = format!("the captures cannot be compared by {metric}: {refusal}");
        let other = if self.metric == DiffMetric::Time { "launches or sectors" } else { "time or launches" };
        let hint = format!("use --metric {other}, or --force to compare anyway");
        CommandFailure::message(NOT_COMPARABLE, what).hint(hint)
    }

    /// Everything that the output needs.
    async fn find(
        &self,
        facts: SectionAnswer,
        parts: &[DiffPart],
        progress: &ProgressSpinner,
    ) -> Outcome<ComparisonResult> {
        progress.say("comparing costs");
        let mut answers = vec![facts];
        answers.extend(self.answers(self.costs(parts)).await?);
        let headlines = self.headlines(&CompareRow::read(queries::COMPARE.name, &answers[1].rows)?).await?;
        let mut changes = None;
        if !is_tables(self.args, &self.query.names) {
            changes = Some(self.changes(&answers[2].rows, &answers[3].rows).await?);
            answers.truncate(2);
        }
        Ok(ComparisonResult { answers, headlines, changes, gates: self.judged().await? })
    }

    /// Reason why a total cannot be compared.
    fn unknown(&self, total: &str) -> Option<String> {
        let base = self.query.names.first().map_or("", String::as_str);
        self.decision.unknown.contains(&total).then(|| fact::unknown(&self.facts, base, total)).flatten()
    }

    /// A sentence about each capture.
    async fn headlines(&self, totals: &[CompareRow]) -> Outcome<Vec<TotalChange>> {
        let shares = match self.work() {
            Some((query, script)) => WorkShare::read(query.name, &ask(self.session, &script).await?)?,
            None => Vec::new(),
        };
        let steps = match self.steps() {
            Some((query, script)) => StepLength::read(query.name, &ask(self.session, &script).await?)?,
            None => Vec::new(),
        };
        let measure = self.measure();
        let total = total_of(if measure.is_time() { DiffMetric::Time } else { self.metric });
        let rows: Vec<CompareRow> = totals.iter().filter(|row| row.what == total).cloned().collect();
        if rows.is_empty() {
            return Ok(vec![TotalChange::unknown(total, self.unknown(total))]);
        }
        let words = MetricWords {
            metric: if measure.is_time() { DiffMetric::Time } else { self.metric },
            title: total,
            unit: write::unit(measure),
            per: &write::per(self.decision.per, &self.facts),
            is_estimated: measure.is_time() && fact::is_estimated(&self.facts),
            amounts: if self.decision.per == DiffDivisor::Total { &self.facts } else { &[] },
        };
        let base = self.query.names.first().map_or("", String::as_str);
        Ok(verdict::headlines(&rows, base, words, &shares, &steps))
    }

    /// The statement about work, where time is compared that launches share.
    fn work(&self) -> Option<SectionStatements> {
        let is_asked = self.measure().is_time() && self.decision.per != DiffDivisor::Launch;
        is_asked.then(|| (queries::WORK, self.query.work()))
    }

    /// The statement about the length of steps, where they are compared.
    fn steps(&self) -> Option<SectionStatements> {
        let is_asked = self.measure().is_time() && self.decision.per == DiffDivisor::Step;
        is_asked.then(|| (queries::STEPS, self.query.steps()))
    }

    /// The rows that changed: lines with their kernels. Where the captures share no line,
    /// kernels, or ops and modules if most kernels are in one capture only.
    async fn changes(&self, lines: &[RecordBatch], kernels: &[RecordBatch]) -> Outcome<PartChanges> {
        let mut rows = CompareRow::read(queries::COMPARE.name, lines)?;
        // One of the rows that are added may be that of launches without a line.
        let is_shared = |row: &CompareRow| {
            let in_both = row.rows - row.new_rows - row.gone_rows;
            if row.rows > 1.0 { in_both > 1.0 } else { in_both > 0.0 && row.what != NO_LINE }
        };
        if !rows.iter().any(is_shared) {
            let kernels = self.query.part(DiffPart::Kernels, self.measure());
            rows = CompareRow::read(queries::COMPARE.name, &ask(self.session, &kernels).await?)?;
            let sum = |count: fn(&CompareRow) -> f64| rows.iter().map(count).sum::<f64>();
            if 2.0 * sum(|row| row.new_rows + row.gone_rows) > sum(|row| row.rows) {
                let aligned = self.query.part(DiffPart::Aligned, self.measure());
                rows = CompareRow::read(queries::COMPARE.name, &ask(self.session, &aligned).await?)?;
            }
            return Ok(PartChanges { rows, kernels: Vec::new() });
        }
        Ok(PartChanges { rows, kernels: DiffLineKernel::read(queries::LINE_KERNELS.name, kernels)? })
    }

    fn measure(&self) -> DiffMeasure {
        self.decision.measure(self.metric)
    }

    /// Answers to statements, asked at the same time.
    async fn answers(&self, statements: Vec<SectionStatements>) -> Outcome<Vec<SectionAnswer>> {
        let scripts: Vec<&QueryScript> = statements.iter().map(|(_, script)| script).collect();
        let found = ask_all(self.session, &scripts).await?;
        let answer = |((section, script), rows): (&SectionStatements, _)| SectionAnswer {
            section: *section,
            sql: script.text(),
            rows,
            absence: None,
        };
        Ok(statements.iter().zip(found).map(answer).collect())
    }

    /// The statements about costs that the output shows.
    fn costs(&self, parts: &[DiffPart]) -> Vec<SectionStatements> {
        let mut statements = self.tables(parts);
        if !is_tables(self.args, &self.query.names) {
            statements.push(self.line_kernels());
        }
        statements
    }

    /// The totals and the parts.
    fn tables(&self, parts: &[DiffPart]) -> Vec<SectionStatements> {
        let totals = (queries::TOTALS, self.query.totals(&self.decision.unknown));
        let parts = parts.iter().map(|&part| (keys(part), self.query.part(part, self.measure())));
        std::iter::once(totals).chain(parts).collect()
    }

    /// Kernels that a line has in one capture only.
    fn line_kernels(&self) -> SectionStatements {
        let lines = self.query.part(DiffPart::Lines, self.measure());
        (queries::LINE_KERNELS, self.query.line_kernels(&lines))
    }

    fn print_sql(&self, parts: &[DiffPart]) -> Outcome {
        let (mut made, mut texts) = (Vec::new(), Vec::new());
        let facts = (queries::COMPARABLE, self.script.clone());
        for (section, mut script) in
            std::iter::once(facts).chain(self.work()).chain(self.steps()).chain(self.costs(parts))
        {
            // A table is created once for all queries.
            script.tables.retain(|table| !made.contains(table));
            made.extend(script.tables.iter().cloned());
            texts.push(format!("-- {}\n{}", section.title(), script.text()));
        }
        output::print(&texts.join("\n")).map(|()| OK)
    }

    /// Subject of the printed comparison.
    fn subject(&self) -> write::ComparisonSubject<'_> {
        let paths = self.args.captures.iter().map(|capture| &*capture.path);
        write::ComparisonSubject {
            captures: self.query.names.iter().map(String::as_str).zip(paths).collect(),
            names: &self.query.names,
            facts: &self.facts,
            measure: self.measure(),
            per: self.decision.per,
            format: self.args.format(),
            root: self.args.root.as_deref(),
        }
    }
}

/// True for tables of parts. A screen shows the lines of two captures.
fn is_tables(args: &DiffArgs, names: &[String]) -> bool {
    args.is_tables() || args.format() == DiffFormat::Text && names.len() > 2
}

/// The total that a metric is called by.
const fn total_of(metric: DiffMetric) -> &'static str {
    match metric {
        DiffMetric::Memory => "memory samples",
        other => other.name(),
    }
}

/// The selected parts.
fn parts(args: &DiffArgs) -> Outcome<Vec<DiffPart>> {
    let counts_launches = args.metric == Some(DiffMetric::Launches);
    let has_launches = |part: DiffPart| {
        matches!(part, DiffPart::Lines | DiffPart::Ops | DiffPart::Kernels | DiffPart::Aligned)
    };
    if args.by.is_empty() {
        return Ok(PARTS.into_iter().filter(|&part| !counts_launches || has_launches(part)).collect());
    }
    match args.by.iter().find(|&&part| counts_launches && !has_launches(part)) {
        Some(part) => Err(CommandFailure::message(USAGE, format!("{} have no launches", part.name()))
            .hint("only lines, ops, kernels and aligned have launches".to_owned())),
        None => Ok(args.by.clone()),
    }
}

/// The captures with names: a, b, c and so on by default.
pub fn named(captures: &[NamedCapture]) -> Vec<(Option<String>, CaptureLocation)> {
    let is_taken = |name: &str| captures.iter().any(|capture| capture.name.as_deref() == Some(name));
    let letters = ('a'..='z').map(String::from);
    let numbers = (1..).map(|number| format!("capture_{number}"));
    let mut free = letters.chain(numbers).filter(|name| !is_taken(name));
    captures
        .iter()
        .map(|capture| (capture.name.clone().or_else(|| free.next()), capture.path.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_without_a_name_get_one_that_is_free() {
        let captures = ["one.stallmap", "a=two.stallmap", "three.stallmap"].map(|text| text.parse().unwrap());
        let names: Vec<Option<String>> = named(&captures).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["b", "a", "c"].map(|name| Some(name.to_owned())));
    }
}
