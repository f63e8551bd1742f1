//! The verdict: what ran, what the GPU waited for, and what to change first, on one screen.
//!
//! ```text
//! sql/queries/verdict ──> facts (rows) ──> shares, sentence ──> screen, json, and the head of report and page
//! sql/queries/diff/first_* of two captures ──> first: the launch at which two runs differ
//! ```

mod facts;
pub mod first;
mod json;
mod phases;
mod screen;
mod sentence;
mod shares;
pub mod why;

use std::path::Path;

use arrow::array::RecordBatch;
use stallmap::library::queries::{CommandQuery, report, top as rankings, verdict as queries};
use stallmap::session::Session;
use stallmap_console::answer::rows_of_all;
use stallmap_console::args::filter::ProgramPhase;
use stallmap_console::args::verdict::VerdictArgs;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, OK, Outcome, USAGE};
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::{self, TableCanvas};
use stallmap_console::row::QueryRow;

pub use self::facts::FindingRow;
use self::facts::{
    AllocationFacts, LineShare, LossFacts, RankFacts, ReasonFacts, RunFacts, TensorShare, TouchedShare,
};
use self::phases::PhaseShares;
pub use self::shares::{SampleShare, ShareKind};

/// Tensors with a bar of their own.
const TENSORS: u64 = 3;
/// Lines with a bar of their own.
const LINES: u64 = 4;
/// Findings on the screen.
const FINDINGS: u64 = 3;
/// More than there are kinds of findings.
const ALL_FINDINGS: u64 = 1_000;
/// Bars are tensors if the costliest together have this part of all samples.
const TENSORS_LEAST: f64 = 0.3;

/// Everything on the screen, from the rows of `sql/queries/verdict`.
#[derive(Clone, Debug)]
pub struct VerdictRows {
    run: RunFacts,
    /// Steps, set-up and end, with a timeline.
    phases: PhaseShares,
    /// Shares of all samples that add up to 100 %. Empty without samples.
    pub shares: Vec<SampleShare>,
    /// The verdict in one or two sentences.
    pub sentence: String,
    /// The first findings of each kind.
    pub findings: Vec<FindingRow>,
    losses: Vec<LossFacts>,
    /// Memory stalls that have a tensor or an allocation, as a part of all memory stalls. None without any.
    attributed: Option<f64>,
    /// Tensors, or allocations in programs without a framework.
    noun: &'static str,
    /// The queries behind it.
    sql: Vec<(CommandQuery, String)>,
}

/// Prints the verdict of the only capture.
pub fn run(context: &CommandContext, args: &VerdictArgs) -> Outcome {
    let Some(capture) = &args.capture else {
        return Err(CommandFailure::message(USAGE, "name one capture, or a command before it"));
    };
    let session = {
        let _progress = ProgressSpinner::start(format!("opening {}", capture.display()));
        context.open(&[(None, capture.clone())])?
    };
    if args.sql {
        let phase = args.phase.unwrap_or(ProgramPhase::Steady);
        let texts: Vec<String> = texts_of(FINDINGS, phase).into_iter().map(|(_, sql)| sql).collect();
        return output::print(&texts.join("\n")).map(|()| OK);
    }
    let phase = args.phase.unwrap_or(ProgramPhase::Steady);
    let verdict = {
        let _progress = ProgressSpinner::for_work(session.work(), "looking for the verdict");
        runtime()?.block_on(VerdictRows::of_findings(
            &session,
            if args.verbose { ALL_FINDINGS } else { FINDINGS },
            phase,
        ))?
    };
    if args.output.is_json() {
        return output::print(&json::json(&verdict, capture)).map(|()| OK);
    }
    if args.verbose {
        return output::print(&screen::whole(&verdict, capture, output::page())).map(|()| OK);
    }
    output::print(&verdict.screen(capture, output::page())).map(|()| OK)
}

/// Every query that can take part, as a user can run it.
pub fn texts() -> Vec<(CommandQuery, String)> {
    texts_of(FINDINGS, ProgramPhase::Steady)
}

fn texts_of(findings: u64, phase: ProgramPhase) -> Vec<(CommandQuery, String)> {
    let all = [
        (queries::RUN, 0),
        (queries::PHASES, 0),
        (queries::TENSORS, TENSORS),
        (queries::REASONS, 0),
        (queries::LINES, LINES),
        (queries::GROUPS, findings),
        (report::LOSSES, 0),
    ];
    // By default, findings of set-up follow those of steps.
    let filter = if phase == ProgramPhase::Steady { "true".to_owned() } else { phase.findings() };
    let text = |query: CommandQuery, top| {
        query.sql(&[("$top", top)]).replace("$phases", phase.words()).replace("$filter", &filter)
    };
    all.map(|(query, top)| (query, text(query, top))).into()
}

/// The first row of a query that few captures need.
async fn first_row<T: QueryRow>(session: &Session, query: CommandQuery) -> Outcome<Option<T>> {
    let sql = vec![(query, query.sql(&[]))];
    let answers = VerdictAnswers { rows: rows_of_all(session, &sql).await?, sql };
    Ok(answers.rows::<T>(query)?.into_iter().next())
}

/// The findings that the sentence is about. Wrong accesses are the first, and may leave no room for any other.
async fn deciding(session: &Session, found: &[FindingRow], phase: ProgramPhase) -> Outcome<Vec<FindingRow>> {
    if !found.last().is_some_and(FindingRow::is_wrong) {
        return Ok(found.to_vec());
    }
    let mut sql = texts_of(ALL_FINDINGS, phase);
    sql.retain(|(query, _)| *query == queries::GROUPS);
    let answers = VerdictAnswers { rows: rows_of_all(session, &sql).await?, sql };
    answers.rows::<FindingRow>(queries::GROUPS)
}

/// Tensors by their accesses.
async fn touched(session: &Session) -> Outcome<Vec<TouchedShare>> {
    let sql = vec![(rankings::TOUCHED, rankings::TOUCHED.sql(&[("$top", TENSORS)]))];
    let answers = VerdictAnswers { rows: rows_of_all(session, &sql).await?, sql };
    answers.rows::<TouchedShare>(rankings::TOUCHED)
}

impl VerdictRows {
    /// Queries a capture.
    pub async fn from_session(session: &Session) -> Outcome<Self> {
        Self::of_findings(session, FINDINGS, ProgramPhase::Steady).await
    }

    /// The same with the first finding of this many kinds.
    async fn of_findings(session: &Session, findings: u64, phase: ProgramPhase) -> Outcome<Self> {
        let sql = texts_of(findings, phase);
        let answers = VerdictAnswers { rows: rows_of_all(session, &sql).await?, sql };
        let run = answers.rows::<RunFacts>(queries::RUN)?.into_iter().next().unwrap_or_default();
        let mut phases = answers.rows::<PhaseShares>(queries::PHASES)?.into_iter().next().unwrap_or_default();
        let tensors = answers.rows::<TensorShare>(queries::TENSORS)?;
        let reasons = answers.rows::<ReasonFacts>(queries::REASONS)?;
        let tensor_share: f64 =
            tensors.iter().filter(|row| row.kind == "tensor").filter_map(|row| row.share).sum();
        let lines = answers.rows::<LineShare>(queries::LINES)?;
        let findings = answers.rows::<FindingRow>(queries::GROUPS)?;
        let mut losses = answers.rows::<LossFacts>(report::LOSSES)?;
        losses.sort_by_key(LossFacts::harm);
        let are_copies = lines.iter().any(|row| row.kind == "copy");
        let is_empty = phase != ProgramPhase::Steady && run.phase_launches == 0;
        let is_ranked = run.samples.unwrap_or_default() > 0.0 || run.time_ns.is_some();
        let touched = if !is_ranked && lines.iter().all(|row| row.share.is_none()) {
            touched(session).await?
        } else {
            vec![]
        };
        let shares = if is_empty {
            Vec::new()
        } else if !touched.is_empty() {
            shares::by_accesses(&touched)
        } else if tensor_share >= TENSORS_LEAST && !are_copies {
            shares::by_tensor(&tensors, &reasons)
        } else {
            shares::by_line(&lines)
        };
        let memory: Option<AllocationFacts> =
            if run.launches == 0 { first_row(session, queries::MEMORY).await? } else { None };
        let last_rank: Option<RankFacts> =
            if run.ranks > 1 { first_row(session, queries::RANKS).await? } else { None };
        let sentence = sentence::sentence(&sentence::SentenceFacts {
            memory: memory.as_ref(),
            last_rank: last_rank.as_ref(),
            are_accesses: !touched.is_empty(),
            run: &run,
            phases: &phases,
            phase,
            tensors: &tensors,
            lines: &lines,
            reasons: &reasons,
            findings: &deciding(session, &findings, phase).await?,
        });
        let (attributed, noun) = (attributed(&tensors), shares::noun(&tensors, 1));
        // All of the time, or another part of it, leaves out nothing of the steps.
        if phase != ProgramPhase::Steady {
            (phases.setup_ns, phases.end_ns) = (None, None);
        }
        Ok(Self { run, phases, shares, sentence, findings, losses, attributed, noun, sql: answers.sql })
    }

    /// The queries behind it, with their titles.
    pub fn queries(&self) -> Vec<(String, String)> {
        self.sql.iter().map(|(query, sql)| (query.title().to_owned(), sql.clone())).collect()
    }

    /// The screen as text.
    pub fn screen(&self, capture: &Path, canvas: TableCanvas) -> String {
        screen::screen(self, capture, canvas)
    }

    /// Program, GPU, launches and time, in pieces.
    pub fn subject(&self) -> Vec<String> {
        self.run.subject(self.phases.busy_share())
    }

    /// The time at which the program started. None without a run.
    pub fn started(&self) -> Option<&str> {
        self.run.started.as_deref()
    }

    /// Evidence of the steps, and the time outside of them, which the verdict leaves out.
    pub fn outside_steps(&self) -> Option<String> {
        let texts: Vec<String> = self.run.evidence().into_iter().chain(self.phases.outside()).collect();
        (!texts.is_empty()).then(|| texts.join(" "))
    }

    /// Losses first, then coverage, in pieces. True marks a loss.
    pub fn trust(&self) -> Vec<(bool, String)> {
        facts::trust(&self.run, &self.losses, self.attributed.map(|part| (part, self.noun)))
    }
}

/// The part of memory stalls that has a tensor or an allocation.
fn attributed(tensors: &[TensorShare]) -> Option<f64> {
    let all: f64 = tensors.iter().map(|row| row.memory_samples).sum();
    let known = tensors.iter().filter(|row| row.kind.starts_with("tensor"));
    let known: f64 = known.map(|row| row.memory_samples).sum();
    (all > 0.0).then(|| known / all)
}

/// The queries with their rows.
struct VerdictAnswers {
    sql: Vec<(CommandQuery, String)>,
    rows: Vec<Vec<RecordBatch>>,
}

impl VerdictAnswers {
    fn rows<T: QueryRow>(&self, query: CommandQuery) -> Outcome<Vec<T>> {
        let found = self.sql.iter().zip(&self.rows).find(|((asked, _), _)| *asked == query);
        T::read(query.name, found.map(|(_, rows)| rows.as_slice()).unwrap_or_default())
    }
}
