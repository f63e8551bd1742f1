//! `stallmap export`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use stallmap::location::CaptureLocation;

use super::examples;

/// `stallmap export`
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Target tool.
    #[command(subcommand)]
    pub form: ExportForm,
}

/// Target tool.
#[derive(Debug, Subcommand)]
pub enum ExportForm {
    /// Perfetto: launches, ops, counters and samples on a timeline, for ui.perfetto.dev
    #[command(after_help = examples(&[
        ("stallmap export perfetto train.stallmap -o train.pftrace", "open it in ui.perfetto.dev"),
        ("stallmap export perfetto train.stallmap --sql", "its queries"),
    ]))]
    Perfetto(FileExport),
    /// Chrome trace events with the categories and arguments of PyTorch's profiler (Kineto), compressed
    #[command(after_help = examples(&[
        ("stallmap export kineto train.stallmap -o train.pt.trace.json.gz", "for Perfetto, HTA, TraceLens"),
    ]))]
    Kineto(FileExport),
    /// speedscope: call paths with samples, memory samples and GPU time
    #[command(after_help = examples(&[
        ("stallmap export speedscope train.stallmap -o train.speedscope.json", "open it in speedscope.app"),
    ]))]
    Speedscope(FileExport),
    /// pprof: call paths with samples, memory samples and GPU time, compressed
    #[command(after_help = examples(&[
        ("stallmap export pprof train.stallmap -o train.pb.gz", "for `go tool pprof -top train.pb.gz`"),
    ]))]
    Pprof(FileExport),
    /// Firefox Profiler: call paths with samples, and launches as markers
    #[command(after_help = examples(&[
        ("stallmap export firefox train.stallmap -o train.json", "open it in profiler.firefox.com"),
    ]))]
    Firefox(FileExport),
    /// Hatchet and proton-viewer: a tree of call paths with samples per stall reason
    #[command(after_help = examples(&[
        ("stallmap export hatchet train.stallmap -o train.hatchet", "for `proton-viewer -m num_samples train.hatchet`"),
    ]))]
    Hatchet(FileExport),
    /// PyTorch's memory snapshot: allocations with their Python stacks, as a pickle
    #[command(after_help = examples(&[
        ("stallmap export memory-snapshot train.stallmap -o train.pickle", "open it in docs.pytorch.org/memory_viz"),
    ]))]
    MemorySnapshot(FileExport),
    /// Operator Profiler: profile.json 1.0 with kernels, counters and sums per op
    #[command(after_help = examples(&[
        ("stallmap export operator-profiler train.stallmap -o profile.json", "ops with their kernels and counters"),
    ]))]
    OperatorProfiler(FileExport),
    /// SARIF 2.1.0: findings for code scanning, one rule per kind
    #[command(after_help = examples(&[
        ("stallmap export sarif train.stallmap -o train.sarif", "for code scanning and editors"),
    ]))]
    Sarif(FileExport),
    /// Parquet: every view as a file, with the descriptions of its columns
    #[command(after_help = examples(&[
        ("stallmap export parquet train.stallmap views/", "for DuckDB, polars, pyarrow"),
        ("stallmap export parquet train.stallmap views/ --sql", "its queries"),
    ]))]
    Parquet(FolderExport),
    /// TenProf: `tensor_stall_cost.csv`, forest.txt, blame.dot, `pc_samples.csv`
    #[command(after_help = examples(&[
        ("stallmap export tenprof train.stallmap blame/", "the four files, with exact numbers"),
        ("stallmap export tenprof train.stallmap blame/ --sql", "their queries"),
    ]))]
    Tenprof(FolderExport),
    /// Flame graphs: folded stacks, one call path per line with its samples, in a file or on standard output
    Folded(FoldedExport),
}

/// Arguments of a format with one file.
#[derive(Args, Debug)]
pub struct FileExport {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: CaptureLocation,
    /// File to write, or -
    #[arg(short, long, value_name = "FILE", required_unless_present = "sql")]
    pub output: Option<PathBuf>,
    /// Print the queries instead of running them
    #[arg(long)]
    pub sql: bool,
}

/// Arguments of a format with several files.
#[derive(Args, Debug)]
pub struct FolderExport {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: CaptureLocation,
    /// Folder to create. It must not exist, or be empty
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Print the queries instead of running them
    #[arg(long)]
    pub sql: bool,
}

/// `stallmap export folded`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap export folded train.stallmap -o train.folded", "for speedscope, inferno, flamegraph.pl"),
    ("stallmap export folded train.stallmap --sql", "its query"),
]))]
pub struct FoldedExport {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: CaptureLocation,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the query instead of running it
    #[arg(long)]
    pub sql: bool,
}
