//! One function a command; nothing is decided here.

mod check;
mod completions;
pub(crate) mod describe;
mod explain;
mod info;
mod names;
mod pack;
mod query;
mod report;
mod sql;

use std::path::PathBuf;

use stallmap::session::Session;
use tokio::runtime::Runtime;

use crate::args::{Cli, Command};
use crate::exit::{Failure, IO, Outcome};

pub(crate) use explain::{arrow_failure, capture_failure, explain};
pub(crate) use names::{Names, nearest};
pub(crate) use query::{Statement, Target, run_statement, split_statements};
pub(crate) use report::query_of as report_query;

/// Runs a command; the outcome is its exit code.
pub(crate) fn run(cli: Cli) -> Outcome {
    match cli.command {
        Command::Report(report) => report::run(&report),
        Command::Sql(sql) => sql::run(&sql),
        Command::Info(info) => info::run(&info),
        Command::Check(check) => check::run(&check),
        Command::Pack(pack) => pack::pack(&pack),
        Command::Unpack(unpack) => pack::unpack(&unpack),
        Command::Completions(completions) => completions::run(&completions),
    }
}

/// Opens captures for querying.
fn open(captures: &[(Option<String>, PathBuf)]) -> Outcome<Session> {
    Session::open(captures).map_err(|error| explain(error, None))
}

/// Threads to run queries on.
fn runtime() -> Outcome<Runtime> {
    Runtime::new().map_err(|error| Failure::new(IO, anyhow::Error::from(error).context("start threads")))
}
