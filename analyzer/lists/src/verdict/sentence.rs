//! The verdict in one or two sentences: the first rule that fits.

use super::facts::{AllocationFacts, FindingRow, LineShare, RankFacts, ReasonFacts, RunFacts, TensorShare};
use super::phases::PhaseShares;
use super::shares::{by_tensor, is_line, noun, place, shape};
use stallmap_console::args::filter::ProgramPhase;
use stallmap_console::output::number::{bytes, counted, grouped, nanoseconds, percent};
use stallmap_console::output::shorten::{ShortenSide, shorten};

/// A tensor with this part of all samples is the verdict.
const ONE_TENSOR: f64 = 0.15;
/// A finding that saves this part of all samples is the verdict.
const ONE_FINDING: f64 = 0.1;
/// Memory stalls with this part of all samples are the verdict.
const MEMORY: f64 = 0.3;

/// Columns of a kernel's name in a sentence.
const NAME: usize = 60;

/// The rows that decide.
pub(super) struct SentenceFacts<'a> {
    pub(super) run: &'a RunFacts,
    pub(super) phases: &'a PhaseShares,
    pub(super) phase: ProgramPhase,
    pub(super) tensors: &'a [TensorShare],
    pub(super) lines: &'a [LineShare],
    pub(super) reasons: &'a [ReasonFacts],
    pub(super) findings: &'a [FindingRow],
    pub(super) memory: Option<&'a AllocationFacts>,
    /// The rank that the rest wait for.
    pub(super) last_rank: Option<&'a RankFacts>,
    /// True if shares are those of accesses.
    pub(super) are_accesses: bool,
}

/// The verdict.
pub(super) fn sentence(facts: &SentenceFacts<'_>) -> String {
    if facts.run.launches == 0 {
        let none = "The capture has no launches of kernels.";
        return facts
            .memory
            .and_then(allocated)
            .map_or_else(|| none.to_owned(), |memory| format!("{none} {memory}"));
    }
    if facts.phase != ProgramPhase::Steady && facts.run.phase_launches == 0 {
        return format!("Phase {} has no launches of kernels.", facts.phase.name());
    }
    let rules = [waiting, copying, unsampled, one_tensor, one_finding, memory];
    let cause = rules.iter().find_map(|rule| rule(facts)).unwrap_or_else(|| reason(facts));
    let step = match facts.phase {
        ProgramPhase::Steady => facts.phases.sentence(facts.run),
        phase => facts.phases.phase_sentence(phase.name()),
    };
    let cause = Some(cause).filter(|cause| !cause.is_empty());
    let parts = [wrong(facts), step, facts.last_rank.map(last), cause];
    parts.into_iter().flatten().collect::<Vec<String>>().join(" ")
}

/// The rank that the rest wait for, and why.
fn last(facts: &RankFacts) -> String {
    let RankFacts { rank, collective_count, last_count, late_ns, cause } = facts;
    let count = counted(*collective_count, "collective", "collectives");
    #[expect(clippy::cast_precision_loss, reason = "a number of collectives")]
    let delay = nanoseconds(late_ns / *last_count as f64);
    let because = match cause.as_deref() {
        Some("kernels") => ", because of its kernels",
        Some("launch") => ", because its launch calls come late",
        Some("input") => ", because its input comes late",
        _ => "",
    };
    format!("Rank {rank} comes last to {last_count} of {count}, {delay} after the rest{because}.")
}

/// Accesses that may make results wrong come before everything that is slow.
fn wrong(facts: &SentenceFacts<'_>) -> Option<String> {
    let found: Vec<&FindingRow> = facts.findings.iter().filter(|finding| finding.is_wrong()).collect();
    let kinds: Vec<String> = found.iter().map(|finding| finding.kind()).collect();
    (!kinds.is_empty())
        .then(|| format!("Accesses to memory are wrong, so results may be: {}.", kinds.join(", ")))
}

/// The first finding of something slow.
fn slow<'a>(facts: &SentenceFacts<'a>) -> Option<&'a FindingRow> {
    facts.findings.iter().find(|finding| !finding.is_wrong())
}

/// The steps are copies above all.
fn copying(facts: &SentenceFacts<'_>) -> Option<String> {
    facts.phases.copies()
}

/// A capture without samples: the costliest kernel.
fn unsampled(facts: &SentenceFacts<'_>) -> Option<String> {
    if facts.run.samples.unwrap_or_default() > 0.0 {
        return None;
    }
    let most = costliest(facts);
    if facts.run.is_imported || facts.phases.idle_share.is_some() {
        // Its times are measured, and answer more than samples would.
        return Some(most.unwrap_or_default());
    }
    let unknown = if facts.are_accesses {
        "The capture has no stall samples and no times. Shares are of the 32-byte sectors that requests touch."
    } else {
        "The capture has no stall samples, so it does not show what the GPU waited for."
    };
    Some(most.map_or_else(|| unknown.to_owned(), |most| format!("{most} {unknown}")))
}

/// The peak of a capture that has allocations only.
fn allocated(memory: &AllocationFacts) -> Option<String> {
    let peak = bytes(memory.peak_bytes?);
    let allocations = match memory.allocations {
        1 => "allocation peaks".to_owned(),
        count => format!("{} allocations peak", grouped(count.into())),
    };
    let left = memory
        .left_bytes
        .filter(|left| *left > 0.0)
        .map_or_else(|| "all are freed".to_owned(), |left| format!("{} stay allocated", bytes(left)));
    let most = memory.category.as_deref().zip(memory.share).filter(|(category, _)| *category != "other");
    let most =
        most.map_or_else(String::new, |(category, share)| format!(", {} of it {category}", percent(share)));
    Some(format!("Its {allocations} at {peak}{most}, and {left}.{}", failed(memory).unwrap_or_default()))
}

/// The allocation that failed.
fn failed(memory: &AllocationFacts) -> Option<String> {
    let failed = bytes(memory.failed_bytes?);
    let free = memory.free_bytes.map(|free| format!(" while the GPU had {} free", bytes(free)));
    let line = memory.failed_at.as_ref().map(|line| format!(", at {line}"));
    Some(format!(
        " An allocation of {failed} failed{}{}.",
        free.unwrap_or_default(),
        line.unwrap_or_default()
    ))
}

/// The kernel with most of the time.
fn costliest(facts: &SentenceFacts<'_>) -> Option<String> {
    let run = facts.run;
    let (kernel, share) = run.costliest.as_deref().zip(run.costliest_share)?;
    let kernel = shorten(kernel, NAME, ShortenSide::Middle);
    let percent = share * 100.0;
    let untimed = run.launches.saturating_sub(run.timed_launches);
    if untimed == 0 {
        let part = match facts.phase {
            ProgramPhase::Steady if run.steps > 0 => format!(" of the {}", run.step_noun(run.steps)),
            ProgramPhase::Steady | ProgramPhase::All => String::new(),
            phase => format!(" of phase {}", phase.name()),
        };
        return Some(format!("{kernel} takes {percent:.0} % of the GPU time{part}."));
    }
    let launches = counted(run.launches, "launch", "launches");
    let verb = if untimed == 1 { "has" } else { "have" };
    let untimed = grouped(untimed.into());
    Some(format!(
        "{untimed} of {launches} {verb} no duration. {kernel} takes {percent:.0} % of the measured time."
    ))
}

/// The GPU waits for its host, which no kernel makes up for.
fn waiting(facts: &SentenceFacts<'_>) -> Option<String> {
    let is_about_steps = facts.phase == ProgramPhase::Steady;
    let first = slow(facts).filter(|finding| is_about_steps && finding.class == "cpu_bound")?;
    let fact = first.fact.as_deref()?;
    if facts.phases.steps > 0
        && let Some((_, because)) = fact.split_once("because ")
    {
        // The sentence about a step has the part already.
        let mut letters = because.chars();
        let first: String = letters.next().map(|letter| letter.to_uppercase().collect()).unwrap_or_default();
        return Some(format!("{first}{}.", letters.as_str()));
    }
    if facts.run.samples.unwrap_or_default() <= 0.0 {
        return Some(format!("{fact}."));
    }
    Some(format!("{fact}. {}", memory_spread(facts)))
}

/// One tensor has most of the stalls.
fn one_tensor(facts: &SentenceFacts<'_>) -> Option<String> {
    let costliest =
        facts.tensors.first().filter(|row| row.kind == "tensor" && row.share >= Some(ONE_TENSOR))?;
    // The percents of the bars, which are these unless lines have the bars.
    let shares = by_tensor(facts.tensors, facts.reasons);
    let percent = shares.first()?.percent;
    let noun = match costliest.target.as_deref() {
        Some("tensor") => "tensor",
        Some("storage") => "storage",
        _ => "allocation",
    };
    let label = costliest.label.as_deref().unwrap_or("unnamed");
    let kind = costliest.shape.as_deref().map(|text| format!(" ({})", shape(text))).unwrap_or_default();
    let by = if is_by_traffic(costliest) { "by the traffic of" } else { "for" };
    Some(format!(
        "{} wait for memory, {percent} % {by} one {noun}: {label}{kind}{}.",
        memory_part(facts),
        waited(facts, costliest)
    ))
}

/// True if a tensor costs more by keeping memory busy than by waits for it.
fn is_by_traffic(tensor: &TensorShare) -> bool {
    tensor.share.zip(tensor.waited_share).is_some_and(|(share, waited)| waited < share / 2.0)
}

/// Location of the wait for a tensor, and the way it is read.
fn waited(facts: &SentenceFacts<'_>, costliest: &TensorShare) -> String {
    let is_strided = |finding: &&FindingRow| {
        finding.class == "uncoalesced_view" && finding.tensor_id == costliest.object_id
    };
    let how =
        if costliest.target.as_deref() == Some("tensor") && facts.findings.iter().any(|f| is_strided(&f)) {
            ", read across its layout"
        } else {
            ""
        };
    match costliest.waited_at.as_deref().map(place) {
        Some(line) if is_line(&line) => format!("{how} at {line}"),
        Some(kernel) => format!("{how} in {kernel}"),
        None => how.to_owned(),
    }
}

/// One finding saves much.
fn one_finding(facts: &SentenceFacts<'_>) -> Option<String> {
    let first = slow(facts)?;
    // Several of a kind have no fact in common.
    let first = Some(first).filter(|first| first.alike == 1 && first.saving_share >= Some(ONE_FINDING))?;
    let fact = first.fact.as_deref()?;
    Some(format!("{fact}. {}", memory_spread(facts)))
}

/// Memory stalls are spread over tensors.
fn memory(facts: &SentenceFacts<'_>) -> Option<String> {
    let line =
        facts.lines.iter().find(|line| line.kind != "copy").filter(|_| memory_share(facts) >= MEMORY)?;
    let label = line.label.as_deref().map(place)?;
    let percent = line.share.unwrap_or_default() * 100.0;
    Some(format!("{} The costliest {} is {label} with {percent:.0} %.", memory_spread(facts), line.kind))
}

/// The most frequent stall reason and its kernel.
fn reason(facts: &SentenceFacts<'_>) -> String {
    let Some(first) = facts.reasons.first() else { return "None of these launches has samples.".to_owned() };
    let percent = first.share.unwrap_or_default() * 100.0;
    let kernel =
        first.kernel.as_deref().map(|kernel| format!(", most of it in {kernel}")).unwrap_or_default();
    format!(
        "{percent:.0} % of warp samples are {}{kernel}. {}",
        first.name.replace('_', " "),
        memory_spread(facts)
    )
}

fn memory_spread(facts: &SentenceFacts<'_>) -> String {
    if memory_percent(facts) == 0 {
        return "Under 1 % of warp samples wait for memory.".to_owned();
    }
    let tensors: u64 =
        facts.tensors.iter().filter(|row| row.kind.starts_with("tensor")).map(|row| row.objects).sum();
    let noun = noun(facts.tensors, tensors);
    let over = match tensors {
        0 => String::new(),
        1 => format!(", for 1 {noun}"),
        _ => format!(", spread over {tensors} {noun}"),
    };
    format!("{} wait for memory{over}.", memory_part(facts))
}

/// `76 % of warp samples`.
fn memory_part(facts: &SentenceFacts<'_>) -> String {
    format!("{} % of warp samples", memory_percent(facts))
}

/// 100 less the percent of the bar that is not memory.
fn memory_percent(facts: &SentenceFacts<'_>) -> u32 {
    let shares = by_tensor(facts.tensors, facts.reasons);
    let rest: u32 =
        shares.iter().filter(|share| share.kind == super::ShareKind::Other).map(|share| share.percent).sum();
    100 - rest.min(100)
}

fn memory_share(facts: &SentenceFacts<'_>) -> f64 {
    facts.reasons.iter().filter(|reason| reason.is_memory).filter_map(|reason| reason.share).sum()
}
