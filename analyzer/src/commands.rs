//! One function per command, without logic.

mod absent;
mod answer;
mod check;
mod completions;
pub(crate) mod describe;
mod diff;
mod excerpt;
mod explain;
mod export;
pub(crate) mod forest;
mod id;
mod info;
mod known;
mod library;
mod names;
mod pack;
mod prepare;
mod query;
mod redact;
mod report;
mod section;
mod source;
mod sql;
mod top;
mod tree;

use std::path::PathBuf;
use std::thread;

use stallmap::code::Cache;
use stallmap::location::Location;
use stallmap::remote::{self, Traffic};
use stallmap::session::Session;
use tokio::runtime::{Builder, Runtime};

use crate::args::{Cli, Command};
use crate::exit::{Failure, IO, Outcome};
use crate::output;
use crate::output::number::bytes;

pub(crate) use explain::{arrow_failure, capture_failure, explain};
pub(crate) use library::{saved_queries, saved_query};
pub(crate) use names::{Names, nearest};
pub(crate) use query::{Statement, Target, run_statement, split_statements};
pub(crate) use report::{query_of as report_query, section_names as report_sections};

/// Bytes of a thread's stack: reserved, and committed only as used.
const STACK_BYTES: usize = 256 << 20;

/// Runs a command on a thread with a large stack. Returns its exit code.
pub(crate) fn run(cli: Cli) -> Outcome {
    library::choose(cli.library.as_deref());
    let thread = thread::Builder::new().name("stallmap".to_owned()).stack_size(STACK_BYTES);
    let command = thread.spawn(|| dispatch(cli.command)).map_err(no_threads)?;
    command.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn dispatch(command: Command) -> Outcome {
    let outcome = run_command(command);
    if outcome.is_ok() {
        remote::traffic().iter().for_each(say_traffic);
    }
    outcome
}

/// Logs the traffic of reading a remote capture.
fn say_traffic(traffic: &Traffic) {
    let (fetched, size) = (bytes(traffic.fetched_bytes as f64), bytes(traffic.size_bytes as f64));
    let requests =
        if traffic.requests == 1 { "1 request" } else { &format!("{} requests", traffic.requests) };
    output::note(format_args!("fetched {fetched} of {size} in {requests}: {}", traffic.path.display()));
}

fn run_command(command: Command) -> Outcome {
    match command {
        Command::Report(report) => report::run(&report),
        Command::Top(top) => top::run(&top),
        Command::Tree(tree) => tree::run(&tree),
        Command::Forest(forest) => forest::run(&forest),
        Command::Diff(diff) => diff::run(&diff),
        Command::Source(source) => source::run(&source),
        Command::Export(export) => export::run(&export),
        Command::Sql(sql) => sql::run(&sql),
        Command::Info(info) => info::run(&info),
        Command::Check(check) => check::run(&check),
        Command::Prepare(prepare) => prepare::run(&prepare),
        Command::Pack(pack) => pack::pack(&pack),
        Command::Unpack(unpack) => pack::unpack(&unpack),
        Command::Redact(redact) => redact::run(&redact),
        Command::Id(id) => id::run(&id),
        Command::Completions(completions) => completions::run(&completions),
    }
}

/// Opens captures for querying, with the user's library in addition to the built-in one.
fn open<L: Clone + Into<Location>>(captures: &[(Option<String>, L)]) -> Outcome<Session> {
    let mut session = Session::open_with(captures, &cache()).map_err(|error| explain(error, None))?;
    library::extend(&mut session)?;
    Ok(session)
}

/// Cache of machine code analyses.
fn cache() -> Cache {
    Cache::of_environment(|name| std::env::var_os(name).map(PathBuf::from))
}

/// Threads to run queries on, with the stacks that deep expressions need: the planner recurses.
pub(crate) fn runtime() -> Outcome<Runtime> {
    Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build().map_err(no_threads)
}

fn no_threads(error: std::io::Error) -> Failure {
    Failure::new(IO, anyhow::Error::from(error).context("start threads"))
}
