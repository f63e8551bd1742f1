//! `stallmap tree`

use clap::builder::PossibleValue;
use clap::{ArgGroup, Args, ValueEnum};
use regex::Regex;
use stallmap::location::Location;

use super::examples;
use super::list::ListFormat;

/// `stallmap tree`
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("direction"), after_help = examples(&[
    ("stallmap tree train.stallmap -t 1%", "call paths: Python frames, ops, kernels; what is below 1 % is summed up"),
    ("stallmap tree train.stallmap --by module,op -m time,launches", "the model's modules, with their ops"),
    ("stallmap tree train.stallmap --bottom-up -d 3", "each kernel, and who called it"),
    ("stallmap tree train.stallmap -i attention -e layer_norm", "paths through one name and not through another"),
    ("stallmap tree new.stallmap --diff old.stallmap -m time", "what became slower and faster since, and what is noise"),
    ("stallmap tree train.stallmap --format json", "for programs: rows with the numbers of their parents"),
]))]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Tree {
    /// The capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: Location,
    /// What paths cost, with commas for several; the first one is filtered and sorted by
    #[arg(
        short,
        long = "metric",
        visible_alias = "metrics",
        value_name = "METRIC",
        value_enum,
        value_delimiter = ',',
        default_value = "samples"
    )]
    pub metrics: Vec<Metric>,
    /// What a path consists of, outermost first
    #[arg(long, value_enum, value_name = "LEVEL", value_delimiter = ',', default_value = "python,op,kernel")]
    pub by: Vec<Level>,
    /// Who calls whom, outermost first; so it is without a word, too
    #[arg(long, group = "direction")]
    pub top_down: bool,
    /// Who is called by whom: kernels first
    #[arg(long, group = "direction")]
    pub bottom_up: bool,
    /// One row a name: the cost of paths that end there, and of all that pass through, each counted once
    #[arg(long, group = "direction")]
    pub flat: bool,
    /// Keep the paths through a name that matches; the others are summed up
    #[arg(short, long, value_name = "REGEX", value_parser = regex)]
    pub include: Option<Regex>,
    /// Sum up names that match, with what is below them
    #[arg(short, long, value_name = "REGEX", value_parser = regex)]
    pub exclude: Option<Regex>,
    /// Sum up what is below this share of the whole, such as 0.01 or 1%
    #[arg(short, long, value_name = "SHARE", value_parser = share, default_value = "0")]
    pub threshold: f64,
    /// Levels to show; what is deeper is summed up
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "flat")]
    pub depth: Option<u32>,
    /// How Python frames are named; frames of one name are one
    #[arg(short, long, value_enum, value_name = "FORM", default_value_t = FrameName::FileFunctionLine)]
    pub frame: FrameName,
    /// What comes first: the largest of a metric, without a word the first one; or the alphabet's
    #[arg(long, value_enum, value_name = "METRIC|name")]
    pub sort: Option<TreeSort>,
    /// Compare with this capture: what each path costs, less what it cost there, and by how much: low to high holds the
    /// ratio in 95 of 100 repetitions, ~ marks what chance explains, as in `stallmap diff`
    #[arg(long, value_name = "OTHER.stallmap")]
    pub diff: Option<Location>,
    /// With --diff: how much a launch differs from a repetition by chance, where the captures have too few to tell
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "5%", requires = "diff")]
    pub spread: f64,
    /// How to print
    #[arg(long, value_enum, default_value_t = ListFormat::Table)]
    pub format: ListFormat,
    /// Print the query whose rows the tree is made of instead of running it; with --diff also the one that compares
    #[arg(long)]
    pub sql: bool,
}

/// What paths cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Metric {
    /// Samples
    #[value(alias = "num_samples")]
    Samples,
    /// Samples of memory stalls
    #[value(alias = "memory-samples")]
    MemorySamples,
    /// Their part of the samples
    #[value(alias = "memory-share")]
    MemoryShare,
    /// Estimated time of the GPU
    #[value(aliases = ["time/ns", "time/us", "time/ms", "time/s"])]
    Time,
    /// Launches
    #[value(alias = "count")]
    Launches,
    /// Estimated time of one launch, on average
    #[value(aliases = ["time-per-launch", "avg_time/ns", "avg_time/us", "avg_time/ms", "avg_time/s"])]
    TimePerLaunch,
}

/// What a path consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Frames of the Python stack; in backward, of the call of backward()
    Python,
    /// Those of them in the user's own code
    User,
    /// In backward, the user's frames of the forward op whose gradient runs
    Forward,
    /// The module, name by name of its path; in backward, that of the forward op
    Module,
    /// The part of the training step
    Phase,
    /// Optimizer steps finished before
    Step,
    /// Regions and ops around the launch
    Op,
    /// The kernel
    Kernel,
}

/// How Python frames are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum FrameName {
    /// torch/nn/functional.py:12 relu
    FileFunctionLine,
    /// relu:12
    FunctionLine,
    /// torch/nn/functional.py relu: edits that move lines do not matter to --diff
    FileFunction,
}

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeSort {
    /// The largest.
    Metric(Metric),
    /// In the order of the alphabet.
    Name,
}

impl ValueEnum for TreeSort {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Metric(Metric::Samples),
            Self::Metric(Metric::MemorySamples),
            Self::Metric(Metric::MemoryShare),
            Self::Metric(Metric::Time),
            Self::Metric(Metric::Launches),
            Self::Metric(Metric::TimePerLaunch),
            Self::Name,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Metric(metric) => metric.to_possible_value(),
            Self::Name => Some(PossibleValue::new("name").help("In the order of the alphabet")),
        }
    }
}

/// A regular expression, or in one line why it is none.
fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let reason = error.to_string();
        let last = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("{last}; hint: a character that means itself has \\ before it, as in \\(")
    })
}

/// A share as a number of at most one, or in percent.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 0.01),
        None => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&(number * unit)) => Ok(number * unit),
        _ => Err("a share is a number from 0 to 1, such as 0.01, or from 0% to 100%, such as 1%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_one_or_percent() {
        let shares = ["0.25", "25%", "100 %", "0"].map(share);
        assert_eq!(shares, [Ok(0.25), Ok(0.25), Ok(1.0), Ok(0.0)]);
        assert!(["1.5", "101%", "-0.1", "x", "nan", ""].iter().all(|text| share(text).is_err()));
    }

    #[test]
    fn what_is_no_expression_is_explained_in_one_line() {
        let reason = regex("a(").unwrap_err();
        assert!(reason.starts_with("unclosed group") && !reason.contains('\n'), "{reason}");
    }
}
