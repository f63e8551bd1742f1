//! `stallmap-cluster`: statements over captures on several machines.
//!
//! ```text
//! stallmap sql --cluster ── sql ──> scheduler ── parts of the plan ──> executors ── leaves ──> captures below a prefix
//! ```
//!
//! The engine is `datafusion-distributed`. Its plans have one operator of stallmap: a leaf, which is SQL and
//! addresses of captures.

mod calls;
mod client;
mod codec;
mod error;
mod executor;
mod messages;
mod output;
mod planner;
mod prefix;
mod scheduler;
mod service;
mod skips;
mod transport;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::Builder;

use self::error::{ClusterError, ClusterResult};

/// Bytes of a thread's stack: reserved, and committed only as used. Plans of views are deep.
const STACK_BYTES: usize = 256 << 20;
/// Threads for each processor: captures are read by calls that block, and peers want signs of life meanwhile.
const THREADS: usize = 4;
/// Fewest threads.
const MIN_THREADS: usize = 16;

/// SQL over captures on several machines
#[derive(Debug, Parser)]
#[command(version)]
struct ClusterCommandLine {
    #[command(subcommand)]
    role: ClusterRole,
}

/// The roles of the program.
#[derive(Debug, Subcommand)]
enum ClusterRole {
    /// Answer statements with the work of executors
    Scheduler(scheduler::SchedulerArgs),
    /// Work for a scheduler
    Executor(executor::ExecutorArgs),
    /// Ask a scheduler. `stallmap sql --cluster` does so, and formats the rows
    Sql(client::StatementArgs),
}

fn main() -> ExitCode {
    let args = ClusterCommandLine::parse();
    match run(args.role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(role: ClusterRole) -> ClusterResult<()> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (THREADS * processors).max(MIN_THREADS);
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .worker_threads(threads)
        .thread_stack_size(STACK_BYTES)
        .build();
    let runtime = runtime.map_err(|error| ClusterError::message(format!("threads cannot start: {error}")))?;
    let work = runtime.spawn(async {
        match role {
            ClusterRole::Scheduler(args) => scheduler::run(args).await,
            ClusterRole::Executor(args) => executor::run(args).await,
            ClusterRole::Sql(args) => client::run(args).await,
        }
    });
    runtime
        .block_on(work)
        .unwrap_or_else(|_| Err(ClusterError::message("the program failed: please report this")))
}
