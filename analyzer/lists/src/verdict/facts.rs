//! The rows behind the verdict, and the lines about the run and its completeness.

use std::path::Path;

use crate::known::is_wanted;
use stallmap_console::output::number::{counted, grouped, measured, nanosecond_range, nanoseconds, percent};
use stallmap_console::rows;

/// Words of losses of a part of a file, or of the end of a program.
const DAMAGE: [&str; 9] = [
    "the rest of the file",
    "damage",
    "torn end",
    "ended by signal",
    "recording stopped",
    "recording had stopped",
    "recording ended",
    "not JSON",
    "complete JSON",
];

/// Programs with fewer launches repeat nothing, which needs no words.
const MIN_REPEATED: u64 = 8;

rows! {
    /// The run.
    #[derive(Clone, Debug, Default)]
    pub(super) struct RunFacts {
        pub(super) program: Option<String>,
        pub(super) arguments: Option<String>,
        pub(super) started: Option<String>,
        pub(super) gpus: Option<String>,
        pub(super) ranks: u64,
        pub(super) rank: Option<u64>,
        pub(super) world_size: Option<u64>,
        pub(super) steps: u64,
        pub(super) step_launches: Option<f64>,
        pub(super) found_by: String,
        pub(super) confidence: Option<f64>,
        pub(super) launches: u64,
        pub(super) phase_launches: u64,
        pub(super) sampled_launches: u64,
        pub(super) replayed_launches: u64,
        pub(super) samples: Option<f64>,
        pub(super) time_ns: Option<f64>,
        pub(super) timed_launches: u64,
        pub(super) measured_launches: u64,
        pub(super) is_imported: bool,
        pub(super) costliest: Option<String>,
        pub(super) costliest_share: Option<f64>,
    }

    /// The rank that the rest wait for.
    #[derive(Clone, Debug)]
    pub(super) struct RankFacts {
        pub(super) rank: u64,
        pub(super) collective_count: u64,
        pub(super) last_count: u64,
        pub(super) late_ns: f64,
        pub(super) cause: Option<String>,
    }

    /// Allocations of a capture without launches.
    #[derive(Clone, Debug)]
    pub(super) struct AllocationFacts {
        pub(super) allocations: u64,
        pub(super) peak_bytes: Option<f64>,
        pub(super) left_bytes: Option<f64>,
        pub(super) category: Option<String>,
        pub(super) share: Option<f64>,
        pub(super) failed_bytes: Option<f64>,
        pub(super) free_bytes: Option<f64>,
        pub(super) failed_at: Option<String>,
    }

    /// A part of all samples: a tensor, or everything of a kind.
    #[derive(Clone, Debug)]
    pub(super) struct TensorShare {
        pub(super) kind: String,
        pub(super) label: Option<String>,
        pub(super) shape: Option<String> as "type",
        pub(super) target: Option<String>,
        pub(super) object_id: Option<u64>,
        pub(super) waited_at: Option<String>,
        pub(super) objects: u64,
        pub(super) memory_samples: f64,
        pub(super) share: Option<f64>,
        pub(super) waited_share: Option<f64>,
    }

    /// A part of all samples: a line, a module of one, or a kernel.
    #[derive(Clone, Debug)]
    pub(super) struct LineShare {
        pub(super) kind: String,
        pub(super) label: Option<String>,
        pub(super) text: Option<String>,
        pub(super) objects: u64,
        pub(super) share: Option<f64>,
    }

    /// A part of all sectors that requests touch: a tensor, or memory outside of tensors.
    #[derive(Clone, Debug)]
    pub(super) struct TouchedShare {
        pub(super) tensor: String,
        pub(super) shape: Option<String> as "type",
        pub(super) born_at: Option<String>,
        pub(super) share: Option<f64>,
    }

    /// A stall reason.
    #[derive(Clone, Debug)]
    pub(super) struct ReasonFacts {
        pub(super) name: String as "reason",
        pub(super) is_memory: bool,
        pub(super) share: Option<f64>,
        pub(super) kernel: Option<String>,
    }

    /// A finding.
    #[derive(Clone, Debug)]
    pub struct FindingRow {
        /// Its rank, from 1.
        pub number: u64,
        /// Its kind, a word of SQL.
        pub class: String as "finding",
        /// The measured fact.
        pub fact: Option<String>,
        /// The recommended change.
        pub advice: Option<String>,
        /// The complete sentence.
        pub sentence: Option<String>,
        /// The line of the user's code.
        pub line: Option<String>,
        /// The line's text.
        pub text: Option<String>,
        /// Its tensor.
        pub tensor_id: Option<u64>,
        /// Upper bound of the saving, as a part of all samples.
        pub saving_share: Option<f64>,
        /// Least time per step that a fix saves, nanoseconds.
        pub saving_low_ns: Option<f64>,
        /// Most time per step that a fix saves.
        pub saving_high_ns: Option<f64>,
        /// Time of the fix itself, nanoseconds.
        pub fix_ns: Option<f64>,
        /// Uses from which the fix pays.
        pub pays_from: Option<f64>,
        /// Kinds of other findings with its cause.
        pub also: Option<String>,
        /// Findings in total.
        pub found: u64,
        /// Findings of its kind, which share the row and the saving.
        pub alike: u64,
        /// The view that found it.
        pub found_by: String,
        /// The query of its evidence.
        pub query: String,
    }

    /// Missing data.
    #[derive(Clone, Debug)]
    pub(super) struct LossFacts {
        pub(super) count: f64,
        pub(super) kind: String,
        pub(super) reason: String,
    }
}

impl RunFacts {
    /// The program's name, GPU, launches and time.
    pub(super) fn subject(&self, busy_share: Option<f64>) -> Vec<String> {
        let mut pieces = vec![self.script()];
        pieces.extend(self.gpus.clone().filter(|gpus| !gpus.trim().is_empty()));
        if self.ranks > 1 {
            pieces.push(counted(self.ranks, "rank", "ranks"));
        }
        if let Some(rank) = self.rank {
            let of = self.world_size.map(|ranks| format!(" of {ranks}")).unwrap_or_default();
            pieces.push(format!("rank {rank}{of}"));
        }
        if self.steps > 0 {
            pieces.push(format!("{} {}", grouped(self.steps.into()), self.step_noun(self.steps)));
        }
        pieces.push(counted(self.launches, "launch", "launches"));
        if let Some(time) = self.time_ns {
            pieces.push(format!("{} of GPU time{}", nanoseconds(time), self.basis()));
        }
        if let Some(share) = busy_share {
            pieces.push(format!("GPU busy {}", percent(share)));
        }
        pieces
    }

    /// The noun of the repeated part: where only the sequence of kernels shows it, it need not be a step.
    pub(super) fn step_noun(&self, count: u64) -> &'static str {
        match (self.found_by == "period", count) {
            (true, 1) => "iteration",
            (true, _) => "iterations",
            (false, 1) => "step",
            (false, _) => "steps",
        }
    }

    /// Evidence of the steps, or their absence. None for a program of a few launches.
    pub(super) fn evidence(&self) -> Option<String> {
        let sure = self.confidence.map(|sure| format!(" ({:.0} % sure)", sure * 100.0)).unwrap_or_default();
        match (self.steps, self.found_by.as_str()) {
            (0, _) if self.launches < MIN_REPEATED => None,
            (0, _) => Some("No part of the program repeats: all of it counts.".to_owned()),
            (_, "range") => Some("Steps are ranges of the program.".to_owned()),
            (_, "optimizer") => Some("Steps end with the optimizer.".to_owned()),
            _ => Some(format!("Iterations are found by the sequence of kernels{sure}.")),
        }
    }

    /// The measured part of the time, in words.
    fn basis(&self) -> String {
        match self.measured_launches {
            0 => " (estimated)".to_owned(),
            measured if measured < self.timed_launches => {
                format!(" ({} of {} measured)", grouped(measured.into()), grouped(self.timed_launches.into()))
            }
            _ => String::new(),
        }
    }

    /// The script or module that an interpreter ran, else the program, without folders.
    pub(super) fn script(&self) -> String {
        let base = |path: &str| path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned();
        let Some(program) = self.program.as_deref().map(base) else { return "unknown program".to_owned() };
        if !program.starts_with("python") {
            return program;
        }
        let arguments: Vec<String> =
            self.arguments.as_deref().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        let module = arguments.iter().position(|argument| argument == "-m");
        let module = module.and_then(|at| arguments.get(at + 1));
        // Launchers are modules, too: their script comes later.
        let script = arguments.iter().find(|argument| is_script(argument));
        let script =
            script.or(module).or_else(|| arguments.iter().find(|argument| !argument.starts_with('-')));
        script.map_or(program, |script| base(script))
    }
}

/// True for a Python file.
fn is_script(argument: &str) -> bool {
    Path::new(argument).extension().is_some_and(|extension| extension == "py")
}

impl FindingRow {
    /// Its kind as words, with the number of its kind.
    pub fn kind(&self) -> String {
        let kind = self.class.replace('_', " ");
        if self.alike > 1 { format!("{kind} ×{}", self.alike) } else { kind }
    }

    /// True if it makes results wrong, however fast they are.
    pub fn is_wrong(&self) -> bool {
        self.found_by == "finding_wrong_access"
    }

    /// The interval of its saving per step. Without times, its upper bound.
    pub fn bound(&self) -> String {
        if self.is_wrong() {
            return "wrong".to_owned();
        }
        if let (Some(low), Some(high)) = (self.saving_low_ns, self.saving_high_ns) {
            return nanosecond_range(low, high);
        }
        match self.saving_share.map(|share| share * 100.0) {
            Some(percent) if percent >= 9.95 => format!("≤ {percent:.0} %"),
            Some(percent) if percent >= 0.05 => format!("≤ {percent:.1} %"),
            Some(percent) if percent > 0.0 => "< 0.1 %".to_owned(),
            _ => "?".to_owned(),
        }
    }
}

/// Losses first, then coverage. True marks a loss.
pub(super) fn trust(
    run: &RunFacts,
    losses: &[LossFacts],
    attributed: Option<(f64, &str)>,
) -> Vec<(bool, String)> {
    // What an option leaves out, or another tool never has, is no loss.
    let losses: Vec<&LossFacts> = losses.iter().filter(|loss| !loss.is_wanted()).collect();
    let mut pieces: Vec<(bool, String)> = losses.iter().take(1).map(|loss| (true, loss.text())).collect();
    if losses.len() > 1 {
        pieces.push((true, counted(losses.len() as u64 - 1, "more loss", "more losses")));
    }
    if losses.is_empty() {
        pieces.push((false, "nothing lost".to_owned()));
    }
    if run.samples.unwrap_or_default() <= 0.0 {
        let times = if run.timed_launches > 0 { "measured times, " } else { "" };
        pieces.push((false, format!("{times}no stall samples")));
    } else if run.sampled_launches < run.launches {
        let sampled = grouped(run.sampled_launches.into());
        pieces.push((true, format!("{sampled} of {} launches sampled", grouped(run.launches.into()))));
    }
    if run.replayed_launches > 0 {
        let replayed = grouped(run.replayed_launches.into());
        let launches = counted(run.launches, "launch", "launches");
        pieces.push((false, format!("cost of {replayed} of {launches} from replays")));
    }
    if let Some((part, noun)) = attributed {
        let article = if noun.starts_with('a') { "an" } else { "a" };
        let text = if part > 0.0 {
            format!("{:.0} % of memory stalls have {article} {noun}", part * 100.0)
        } else {
            format!("no memory stall has {article} {noun}")
        };
        pieces.push((part <= 0.0, text));
    }
    pieces
}

impl LossFacts {
    /// True for data that an option left out, that other tools do not record, or that is not of the program.
    pub(super) fn is_wanted(&self) -> bool {
        is_wanted(&self.reason)
    }

    /// The order of losses: files that end too early or are damaged first, then lost data, then estimates, then bundles,
    /// which touch no number.
    pub(super) fn harm(&self) -> u8 {
        let is_damaged = DAMAGE.iter().any(|word| self.reason.contains(word));
        match self.kind.as_str() {
            "bundle" => 3,
            _ if is_damaged => 0,
            _ if self.reason.contains("estimate") => 2,
            _ => 1,
        }
    }

    pub(super) fn text(&self) -> String {
        let reason = self.reason.trim_end_matches('.');
        if self.kind == "run" {
            return reason.to_owned();
        }
        let count = measured(self.count);
        if ["access", "memory"].contains(&self.kind.as_str()) {
            // Their reasons are nouns.
            return format!("{count} {reason}");
        }
        let plural = match (self.count > 1.0, self.kind.ends_with('h')) {
            (false, _) => "",
            (true, false) => "s",
            (true, true) => "es",
        };
        format!("{count} {}{plural}: {reason}", self.kind)
    }
}
