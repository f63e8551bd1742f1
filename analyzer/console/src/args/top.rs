//! `stallmap top`

use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};
use stallmap::location::CaptureLocation;

use super::examples;
use super::filter::FilterArgs;
use super::list::ListOutput;

/// `stallmap top`
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap top tensors train.stallmap", "the ten tensors that the GPU waited for most, and the rest as one row"),
    ("stallmap top kernels train.stallmap -n 30 --sort launches", "the most frequently launched kernels"),
    ("stallmap top collectives job.stallmap", "collectives of a job by exposed time, and the rank that the rest waited for"),
    ("stallmap top memory train.stallmap", "the peak of each GPU, and what holds it: category, module, line"),
    ("stallmap top findings train.stallmap", "inefficiencies and recommended changes, by saving"),
    ("stallmap top lines train.stallmap --format csv", "for programs, with complete values"),
    ("stallmap top ops train.stallmap --sql", "its query, to run or to change"),
    ("stallmap top tensors train.stallmap --line :31", "the tensors that the launches of one line waited for"),
    ("stallmap top tensors train.stallmap --traffic", "the tensors that keep memory busy, stores among their accesses"),
    ("stallmap top tensors train.stallmap --shared", "the tensors whose tiles in shared memory were waited for"),
    ("stallmap top tensors train.stallmap --ablated", "the tensors by the time that experiments measured"),
    ("stallmap top kernels --over runs/", "the costliest kernels of all captures in a folder"),
]))]
pub struct TopArgs {
    /// Items to rank
    #[arg(value_enum, value_name = "WHAT")]
    pub what: TopRanking,
    /// Capture
    #[arg(
        value_name = "NAME.stallmap",
        required = false,
        required_unless_present = "over",
        default_value_if("over", ArgPredicate::IsPresent, "")
    )]
    pub capture: CaptureLocation,
    /// Rank over all captures in folders, below s3:// prefixes, or listed ones, together
    #[arg(
        long,
        value_name = "FOLDER|PREFIX|NAME.stallmap",
        num_args = 1..,
        conflicts_with_all = ["capture", "ablated", "traffic", "shared", "kernel", "line", "op", "phase"]
    )]
    pub over: Vec<CaptureLocation>,
    /// Rows, the rest as one row
    #[arg(short = 'n', long = "top", value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    /// Metric to rank by [default: samples, for findings saving, for collectives exposed time]
    #[arg(long, value_enum, value_name = "METRIC")]
    pub sort: Option<TopSort>,
    /// Rank tensors by measured time: launches without their accesses, of `stallmap-record replay --ablate`
    #[arg(long, conflicts_with_all = ["sort", "kernel", "line", "op"])]
    pub ablated: bool,
    /// Show the traffic of tensors where memory is busy, next to the waits for them
    #[arg(long, conflicts_with_all = ["ablated", "sort"])]
    pub traffic: bool,
    /// Show the waits for shared memory that tensors filled, next to the waits for device memory
    #[arg(long, conflicts_with_all = ["ablated", "sort", "traffic"])]
    pub shared: bool,
    /// Launches to show.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Format of the rows.
    #[command(flatten)]
    pub output: ListOutput,
    /// Print the query instead of running it
    #[arg(long)]
    pub sql: bool,
}

/// Rankings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopRanking {
    /// Tensors by the stalls that waited for them, grouped by name, or op, line, shape
    #[value(alias = "tensor")]
    Tensors,
    /// Operators by the cost of their kernels
    #[value(aliases = ["op", "operators"])]
    Ops,
    /// Python lines by the cost of their kernels
    #[value(alias = "line")]
    Lines,
    /// Kernels over all their launches
    #[value(alias = "kernel")]
    Kernels,
    /// Collectives by kind, group and size, with bus bandwidth, waits and the rank that came last
    #[value(alias = "collective")]
    Collectives,
    /// Memory at the peak by category, module, op and line, with fragmentation and failed allocations
    Memory,
    /// Inefficiencies and recommended changes
    #[value(alias = "finding")]
    Findings,
}

/// Metric of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum TopSort {
    /// Samples
    Samples,
    /// Samples of memory stalls
    #[value(alias = "memory-samples")]
    MemorySamples,
    /// Estimated GPU time
    Time,
    /// Launches
    #[value(alias = "count")]
    Launches,
    /// For findings: upper bound of samples that a fix saves
    Saving,
}
