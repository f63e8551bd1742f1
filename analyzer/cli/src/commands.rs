//! The commands by name. Nothing is decided here.

mod check;
mod cluster;
pub(crate) mod completions;
pub(crate) mod describe;
mod id;
mod info;
mod label;
mod pack;
mod prepare;
pub(crate) mod query;
mod redact;
mod sampled;
mod serve;
mod sql;
pub(crate) mod unknown;

use std::thread;

use clap::CommandFactory as _;
use stallmap::remote::{self, ReadTraffic};
use stallmap_console::args::verdict::VerdictArgs;
use stallmap_console::args::{CliArgs, StallmapCommand};
use stallmap_console::context::{CommandContext, STACK_BYTES, no_threads};
use stallmap_console::exit::{CommandFailure, Outcome, QUERY, USAGE};
use stallmap_console::names::nearest;
use stallmap_console::output;
use stallmap_console::output::number::bytes;
use stallmap_export as export;
use stallmap_lists::verdict::why;
use stallmap_lists::{block, diff, forest, top, tree};
use stallmap_report::{open, report, source};
use stallmap_schema::contained;

/// Remote captures whose traffic is logged one by one.
const MAX_TRAFFIC_LINES: usize = 4;

/// Runs a command on a thread with a large stack. Returns its exit code.
pub(crate) fn run(cli: CliArgs) -> Outcome {
    let context =
        CommandContext::of_environment(cli.library.as_deref(), cli.recompute, cli.memory, cli.cost_from);
    let thread = thread::Builder::new().name("stallmap".to_owned()).stack_size(STACK_BYTES);
    let command = thread.spawn(move || dispatch(&context, cli)).map_err(no_threads)?;
    command.join().unwrap_or_else(|panic| {
        let failure =
            CommandFailure::message(QUERY, format!("internal error: {}", contained::text(panic.as_ref())));
        Err(failure.hint("this is a defect: report it with `RUST_BACKTRACE=1` and the command".to_owned()))
    })
}

fn dispatch(context: &CommandContext, cli: CliArgs) -> Outcome {
    let outcome = match cli.command {
        None => without_command(context, &cli.verdict),
        Some(_) if !cli.verdict.is_empty() => {
            Err(CommandFailure::message(USAGE, "a capture and its options stand behind the command")
                .hint("for example `stallmap report train.stallmap`".to_owned()))
        }
        Some(command) => run_command(context, command),
    };
    if outcome.is_ok() {
        say_all_traffic();
        sampled::start();
    }
    outcome
}

/// Logs the traffic of reading remote captures: of each, or of all together if they are many.
fn say_all_traffic() {
    let (mut open, (closed, mut sum)) = (remote::traffic(), remote::closed_traffic());
    if closed == 0 && open.len() <= MAX_TRAFFIC_LINES {
        return open.iter().for_each(say_traffic);
    }
    let count = open.len() + closed;
    for traffic in open.drain(..) {
        sum.size_bytes += traffic.size_bytes;
        sum.fetched_bytes += traffic.fetched_bytes;
        sum.requests += traffic.requests;
    }
    sum.path = format!("{count} lists and captures").into();
    say_traffic(&sum);
}

/// Logs the traffic of reading a remote capture.
fn say_traffic(traffic: &ReadTraffic) {
    let (fetched, size) = (bytes(traffic.fetched_bytes as f64), bytes(traffic.size_bytes as f64));
    let requests =
        if traffic.requests == 1 { "1 request" } else { &format!("{} requests", traffic.requests) };
    output::note(format_args!("fetched {fetched} of {size} in {requests}: {}", output::path(&traffic.path)));
}

/// The verdict, or advice for a word that is neither a command nor a file.
fn without_command(context: &CommandContext, args: &VerdictArgs) -> Outcome {
    let Some(first) = &args.capture else {
        return stallmap_lists::verdict::run(context, args);
    };
    let word = first.to_string_lossy();
    let is_word = !word.contains(['.', '/', ':', '\\']) && !first.exists();
    if !is_word {
        return stallmap_lists::verdict::run(context, args);
    }
    let cli = CliArgs::command();
    let names: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
    let hint = nearest(&word, names.iter().copied())
        .map_or_else(|| format!("commands: {}", names.join(", ")), |name| format!("did you mean `{name}`?"));
    Err(CommandFailure::message(USAGE, format!("`{word}` is neither a command nor a capture")).hint(hint))
}

fn run_command(context: &CommandContext, command: StallmapCommand) -> Outcome {
    match command {
        StallmapCommand::Report(report) if !report.over.is_empty() => {
            stallmap_lists::trend::report(context, &report)
        }
        StallmapCommand::Report(report) => report::run(context, &report),
        StallmapCommand::Why(why) => why::run(context, &why),
        StallmapCommand::Open(open) if open.serve => stallmap_serve::web::open(context, &open),
        StallmapCommand::Open(open) => open::run(context, &open),
        StallmapCommand::Top(top) if !top.over.is_empty() => stallmap_lists::trend::top(context, &top),
        StallmapCommand::Top(top) => top::run(context, &top),
        StallmapCommand::Tree(tree) => tree::run(context, &tree),
        StallmapCommand::Forest(forest) => forest::run(context, &forest),
        StallmapCommand::Block(block) => block::run(context, &block),
        StallmapCommand::Trend(trend) => stallmap_lists::trend::trend(context, &trend),
        StallmapCommand::Diff(diff) if !diff.over.is_empty() => {
            let chosen = stallmap_lists::trend::choose(context, diff)?;
            run_command(context, StallmapCommand::Diff(chosen))
        }
        StallmapCommand::Diff(diff) if diff.first => stallmap_lists::verdict::first::run(context, &diff),
        StallmapCommand::Diff(diff) if diff.html.is_some() => stallmap_report::diff::run(context, &diff),
        StallmapCommand::Diff(diff) => diff::run(context, &diff),
        StallmapCommand::Source(source) => source::run(context, &source),
        StallmapCommand::Export(export) => export::run(context, &export),
        StallmapCommand::Import(import) => {
            let code = stallmap_import::run(&import)?;
            if !import.no_prepare {
                prepare::imported(context, &import.output);
            }
            Ok(code)
        }
        StallmapCommand::Mcp(mcp) => stallmap_serve::mcp::run(context, &mcp),
        StallmapCommand::Sql(sql) => sql::run(context, &sql),
        StallmapCommand::Cluster(cluster) => cluster::run(&cluster),
        StallmapCommand::Info(info) => info::run(context, &info),
        StallmapCommand::Check(check) => check::run(context, &check),
        StallmapCommand::Prepare(prepare) => prepare::run(context, &prepare),
        StallmapCommand::Pack(pack) => pack::pack(&pack),
        StallmapCommand::Unpack(unpack) => pack::unpack(&unpack),
        StallmapCommand::Redact(redact) => redact::run(&redact),
        StallmapCommand::Id(id) => id::run(&id),
        StallmapCommand::Label(label) => label::run(&label),
        StallmapCommand::Serve(serve) if serve.flight.is_some() => {
            stallmap_serve::flight::run(context, &serve)
        }
        StallmapCommand::Serve(serve) if !serve.stdio => stallmap_serve::run(context, &serve),
        StallmapCommand::Serve(serve) => serve::run(context, &serve),
        StallmapCommand::Completions(completions) => completions::run(&completions),
    }
}
