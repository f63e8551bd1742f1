//! `stallmap tree`

use clap::builder::PossibleValue;
use clap::{ArgGroup, Args, ValueEnum};
use regex::Regex;
use stallmap::location::CaptureLocation;

use super::examples;
use super::filter::FilterArgs;
use super::list::ListOutput;

/// `stallmap tree`
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("direction"), after_help = examples(&[
    ("stallmap tree train.stallmap -t 1%", "call paths: Python frames, ops, kernels, with nodes below 1 % aggregated"),
    ("stallmap tree train.stallmap --by module,op -m time,launches", "modules of the model, with their ops"),
    ("stallmap tree train.stallmap -n 20", "the twenty costliest rows"),
    ("stallmap tree train.stallmap --bottom-up -d 3", "each kernel with its callers"),
    ("stallmap tree train.stallmap -i attention -e layer_norm", "paths through one name and not through another"),
    ("stallmap tree new.stallmap --diff old.stallmap -m time", "slower and faster paths, with significance"),
    ("stallmap tree train.stallmap --format json", "for programs: rows with the numbers of their parents"),
]))]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct TreeArgs {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: CaptureLocation,
    /// Metrics of paths, comma-separated. The first is used to filter and sort [default: samples, without samples time]
    #[arg(
        short,
        long = "metric",
        visible_alias = "metrics",
        value_name = "METRIC",
        value_enum,
        value_delimiter = ','
    )]
    pub metrics: Vec<TreeMetric>,
    /// Categories of the path, callers first, comma-separated
    #[arg(long, value_enum, value_name = "LEVEL", value_delimiter = ',', default_value = "python,op,kernel")]
    pub by: Vec<TreeLevel>,
    /// List callers first (default)
    #[arg(long, group = "direction")]
    pub top_down: bool,
    /// List callees first, starting with kernels
    #[arg(long, group = "direction")]
    pub bottom_up: bool,
    /// Print one row per name: exclusive and inclusive cost, each path counted once
    #[arg(long, group = "direction")]
    pub flat: bool,
    /// Keep paths through a matching name. The rest is aggregated
    #[arg(short, long, value_name = "REGEX", value_parser = regex)]
    pub include: Option<Regex>,
    /// Aggregate matching names with everything below them
    #[arg(short, long, value_name = "REGEX", value_parser = regex)]
    pub exclude: Option<Regex>,
    /// Aggregate nodes below this share of the total, such as 0.01 or 1%
    #[arg(short, long, value_name = "SHARE", value_parser = share, default_value = "0")]
    pub threshold: f64,
    /// Rows to show, the costliest with the paths to them. The rest is aggregated [default: all]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// Levels to show. Deeper ones are aggregated
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "flat")]
    pub depth: Option<u32>,
    /// Names of Python frames. Frames with the same name are merged [default: file_function_line, with --diff
    /// file_function, which edits do not change]
    #[arg(short, long, value_enum, value_name = "FORM")]
    pub frame: Option<FrameName>,
    /// Sort key: the largest of a metric, or by name [default: the first metric]
    #[arg(long, value_enum, value_name = "METRIC|name")]
    pub sort: Option<TreeSort>,
    /// Show the change of each path since OTHER, with a 95 % CI. `~` marks changes that are not significant
    #[arg(long, value_name = "OTHER.stallmap")]
    pub diff: Option<CaptureLocation>,
    /// With --diff: variation of a launch between repetitions, for captures with too few repeated launches
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "5%", requires = "diff")]
    pub spread: f64,
    /// Launches to show.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Format of the rows.
    #[command(flatten)]
    pub output: ListOutput,
    /// Print the query for the tree's rows instead of running it. With --diff, also the comparison query
    #[arg(long)]
    pub sql: bool,
}

impl TreeArgs {
    /// The names of frames.
    pub fn frame(&self) -> FrameName {
        let usual = if self.diff.is_some() { FrameName::FileFunction } else { FrameName::FileFunctionLine };
        self.frame.unwrap_or(usual)
    }
}

/// Metric of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum TreeMetric {
    /// Samples
    #[value(alias = "num_samples")]
    Samples,
    /// Samples of memory stalls
    #[value(alias = "memory-samples")]
    MemorySamples,
    /// Share of memory stalls in the samples
    #[value(alias = "memory-share")]
    MemoryShare,
    /// Estimated GPU time
    #[value(aliases = ["time/ns", "time/us", "time/ms", "time/s"])]
    Time,
    /// Launches
    #[value(alias = "count")]
    Launches,
    /// Mean GPU time of one launch
    #[value(aliases = ["time-per-launch", "avg_time/ns", "avg_time/us", "avg_time/ms", "avg_time/s"])]
    TimePerLaunch,
    /// Floating-point operations that the program gave to ranges
    Flops,
    /// Their rate over the GPU time of their launches
    #[value(name = "flop/s", aliases = ["gflop/s", "tflop/s"])]
    FlopRate,
    /// Bytes that the program gave to ranges
    Bytes,
    /// Their rate over the GPU time of their launches
    #[value(name = "byte/s", aliases = ["gbyte/s", "tbyte/s"])]
    ByteRate,
}

/// Category of a step in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TreeLevel {
    /// Frames of the Python stack. In backward, of the call of backward()
    Python,
    /// Frames in the user's code
    User,
    /// In backward, the user's frames of the forward op
    Forward,
    /// Module path, one step per name. In backward, that of the forward op
    Module,
    /// Kind of layer and layer: modules up to the first number of their path. A launch of several layers counts for each
    /// with its share
    Layer,
    /// Phase of the training step
    Phase,
    /// Step of the program, as in `program_step`
    Step,
    /// Ranges around the launch: NVTX, record_function, regions. In backward, those of the forward op
    Range,
    /// Regions and ops around the launch
    Op,
    /// The kernel
    Kernel,
    /// Device functions below the kernel, inlined ones too
    Function,
    /// Source line of the kernel's code
    Line,
    /// Instruction
    Instruction,
}

/// Names of Python frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum FrameName {
    /// torch/nn/functional.py:12 relu
    FileFunctionLine,
    /// relu:12
    FunctionLine,
    /// torch/nn/functional.py relu, unaffected by edits that move lines
    FileFunction,
}

/// Sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeSort {
    /// The largest.
    Metric(TreeMetric),
    /// By name.
    Name,
}

impl ValueEnum for TreeSort {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Metric(TreeMetric::Samples),
            Self::Metric(TreeMetric::MemorySamples),
            Self::Metric(TreeMetric::MemoryShare),
            Self::Metric(TreeMetric::Time),
            Self::Metric(TreeMetric::Launches),
            Self::Metric(TreeMetric::TimePerLaunch),
            Self::Metric(TreeMetric::Flops),
            Self::Metric(TreeMetric::FlopRate),
            Self::Metric(TreeMetric::Bytes),
            Self::Metric(TreeMetric::ByteRate),
            Self::Name,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Metric(metric) => metric.to_possible_value(),
            Self::Name => Some(PossibleValue::new("name").help("By name")),
        }
    }
}

/// Parses a regular expression, with the reason on one line as error.
fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let reason = error.to_string();
        let last = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("{last}; hint: escape special characters with \\, as in \\(")
    })
}

/// A share as a number up to one, or in percent.
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
