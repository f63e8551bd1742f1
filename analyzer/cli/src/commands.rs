//! The commands by name. Nothing is decided here.

mod check;
pub(crate) mod completions;
pub(crate) mod describe;
mod id;
mod info;
mod label;
mod pack;
mod prepare;
pub(crate) mod query;
mod redact;
mod serve;
mod sql;
pub(crate) mod unknown;

use std::thread;

use clap::CommandFactory as _;
use stallmap::remote::{self, Traffic};
use stallmap_console::args::verdict::Verdict;
use stallmap_console::args::{Cli, Command};
use stallmap_console::context::{Context, STACK_BYTES, no_threads};
use stallmap_console::exit::{Failure, Outcome, QUERY, USAGE};
use stallmap_console::names::nearest;
use stallmap_console::output;
use stallmap_console::output::number::bytes;
use stallmap_export as export;
use stallmap_lists::{diff, forest, top, tree};
use stallmap_report::{open, report, source};
use stallmap_schema::contained;
use stallmap_verdict::why;

/// Runs a command on a thread with a large stack. Returns its exit code.
pub(crate) fn run(cli: Cli) -> Outcome {
    let context = Context::of_environment(cli.library.as_deref(), cli.recompute, cli.memory, cli.cost_from);
    let thread = thread::Builder::new().name("stallmap".to_owned()).stack_size(STACK_BYTES);
    let command = thread.spawn(move || dispatch(&context, cli)).map_err(no_threads)?;
    command.join().unwrap_or_else(|panic| {
        let failure = Failure::message(QUERY, format!("internal error: {}", contained::text(panic.as_ref())));
        Err(failure.hint("this is a defect: report it with `RUST_BACKTRACE=1` and the command".to_owned()))
    })
}

fn dispatch(context: &Context, cli: Cli) -> Outcome {
    let outcome = match cli.command {
        None => without_command(context, &cli.verdict),
        Some(_) if !cli.verdict.is_empty() => {
            Err(Failure::message(USAGE, "a capture and its options stand behind the command")
                .hint("for example `stallmap report train.stallmap`".to_owned()))
        }
        Some(command) => run_command(context, command),
    };
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
    output::note(format_args!("fetched {fetched} of {size} in {requests}: {}", output::path(&traffic.path)));
}

/// The verdict, or advice for a word that is neither a command nor a file.
fn without_command(context: &Context, args: &Verdict) -> Outcome {
    let Some(first) = args.captures.first() else {
        return stallmap_verdict::run(context, args);
    };
    let word = first.to_string_lossy();
    let is_word = !word.contains(['.', '/', ':', '\\']) && !first.exists();
    if !is_word {
        return stallmap_verdict::run(context, args);
    }
    let cli = Cli::command();
    let names: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
    let hint = nearest(&word, names.iter().copied())
        .map_or_else(|| format!("commands: {}", names.join(", ")), |name| format!("did you mean `{name}`?"));
    Err(Failure::message(USAGE, format!("`{word}` is neither a command nor a capture")).hint(hint))
}

fn run_command(context: &Context, command: Command) -> Outcome {
    match command {
        Command::Report(report) => report::run(context, &report),
        Command::Why(why) => why::run(context, &why),
        Command::Open(open) if open.serve => stallmap_serve::web::open(context, &open),
        Command::Open(open) => open::run(context, &open),
        Command::Top(top) => top::run(context, &top),
        Command::Tree(tree) => tree::run(context, &tree),
        Command::Forest(forest) => forest::run(context, &forest),
        Command::Diff(diff) if diff.html.is_some() => stallmap_report::diff::run(context, &diff),
        Command::Diff(diff) => diff::run(context, &diff),
        Command::Source(source) => source::run(context, &source),
        Command::Export(export) => export::run(context, &export),
        Command::Import(import) => stallmap_import::run(&import),
        Command::Mcp(mcp) => stallmap_mcp::run(context, &mcp),
        Command::Sql(sql) => sql::run(context, &sql),
        Command::Info(info) => info::run(context, &info),
        Command::Check(check) => check::run(context, &check),
        Command::Prepare(prepare) => prepare::run(context, &prepare),
        Command::Pack(pack) => pack::pack(&pack),
        Command::Unpack(unpack) => pack::unpack(&unpack),
        Command::Redact(redact) => redact::run(&redact),
        Command::Id(id) => id::run(&id),
        Command::Label(label) => label::run(&label),
        Command::Serve(serve) if serve.flight.is_some() => stallmap_flight::run(context, &serve),
        Command::Serve(serve) if !serve.stdio => stallmap_serve::run(context, &serve),
        Command::Serve(serve) => serve::run(context, &serve),
        Command::Completions(completions) => completions::run(&completions),
    }
}
