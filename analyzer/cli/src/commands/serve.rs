//! `stallmap serve`: answers of one process to another, over pipes. [`stallmap_console::output::frames`] has the format.
//!
//! ```text
//! {"sql": "SELECT ..."}                      rows of a statement
//! {"section": "tensors", "top": 10}          rows of a section of the report
//! {"diff": ["--by", "kernels", "-m", "time"]}  rows of a comparison, with options of `stallmap diff`
//! ```

use std::io;

use clap::Parser as _;
use futures::StreamExt as _;
use serde_json::{Value, json};
use stallmap::session::Session;
use stallmap_console::absent;
use stallmap_console::answer::SectionAnswer;
use stallmap_console::args::diff::DiffArgs;
use stallmap_console::args::serve::ServeArgs;
use stallmap_console::args::{CliArgs, StallmapCommand};
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, IO, OK, Outcome, QUERY, USAGE};
use stallmap_console::explain::explain_in;
use stallmap_console::output::frames::{self, FramedRows, PROTOCOL, StdoutFrames};
use stallmap_console::output::rows::WriteError;
use stallmap_console::output::written;
use stallmap_lists::diff;
use stallmap_report::report;
use tokio::runtime::Runtime;

/// Serves requests until the input ends. Every failure is a frame, and the next request is served.
pub(super) fn run(context: &CommandContext, args: &ServeArgs) -> Outcome {
    let mut out = StdoutFrames::stdout();
    let captures: Vec<_> =
        args.captures.iter().map(|capture| (capture.name.clone(), capture.path.clone())).collect();
    let runtime = runtime()?;
    let opened = context.open(&captures).and_then(|session| Ok((losses(&runtime, &session)?, session)));
    let (losses, session) = match opened {
        Ok(opened) => opened,
        Err(failure) => return written(out.failure(&failure)).map(|()| failure.code()),
    };
    let hello = json!({ "protocol": PROTOCOL, "version": env!("CARGO_PKG_VERSION"), "losses": losses });
    written(out.json(b'H', &hello))?;
    let mut input = io::stdin().lock();
    while let Some(request) = frames::request(&mut input).map_err(not_a_request)? {
        match runtime.block_on(serve(&session, &request, &mut out)) {
            Ok(done) => written(out.json(b'D', &done))?,
            Err(failure) if failure.is_broken_pipe() => return Err(failure),
            Err(failure) => written(out.failure(&failure))?,
        }
    }
    Ok(OK)
}

/// Number of kinds of data that the first capture lacks.
fn losses(runtime: &Runtime, session: &Session) -> Outcome<usize> {
    let answers = runtime.block_on(report::section(session, "losses", None))?;
    Ok(answers.iter().map(SectionAnswer::count).sum())
}

fn not_a_request(error: io::Error) -> CommandFailure {
    CommandFailure::new(IO, anyhow::Error::from(error).context("read a request from standard input"))
}

/// Serves one request. The result describes its rows.
async fn serve(session: &Session, request: &Value, out: &mut StdoutFrames) -> Outcome<Value> {
    if let Some(sql) = request["sql"].as_str() {
        return statement(session, sql, out).await;
    }
    if let Some(name) = request["section"].as_str() {
        let top = request["top"].as_u64().and_then(|top| u32::try_from(top).ok());
        return sections(&report::section(session, name, top).await?, out);
    }
    if let Some(options) = request["diff"].as_array() {
        let args = diff_args(session, options)?;
        return sections(&diff::sections(session, &args).await?, out);
    }
    Err(CommandFailure::message(USAGE, "a request has none of `sql`, `section`, `diff`"))
}

async fn statement(session: &Session, sql: &str, out: &mut StdoutFrames) -> Outcome<Value> {
    let fail = |error| explain_in(error, session, sql);
    let frame = session.sql(sql).await.map_err(fail)?;
    let mut stream = frame.execute_stream().await.map_err(|error| fail(error.into()))?;
    let mut rows = FramedRows::begin(out, &stream.schema()).map_err(unwritten)?;
    while let Some(batch) = stream.next().await {
        rows.write(&batch.map_err(|error| fail(error.into()))?).map_err(unwritten)?;
    }
    let count = rows.finish().map_err(unwritten)?;
    let absence = if count == 0 { absent::why(session, sql).await } else { None };
    Ok(json!({ "rows": count, "absence": absence }))
}

/// Writes sections with their rows.
fn sections(answers: &[SectionAnswer], out: &mut StdoutFrames) -> Outcome<Value> {
    let mut count = 0;
    for answer in answers {
        let section = answer.section;
        let (name, title, rows) = (section.name, section.title(), answer.count());
        let head = json!({ "name": name, "title": title, "sql": answer.sql, "rows": rows });
        written(out.json(b'S', &head))?;
        let Some(first) = answer.rows.first() else { continue };
        let mut rows = FramedRows::begin(out, &first.schema()).map_err(unwritten)?;
        answer.rows.iter().try_for_each(|batch| rows.write(batch)).map_err(unwritten)?;
        count += rows.finish().map_err(unwritten)?;
    }
    let absence = answers.iter().find_map(|answer| answer.absence.clone());
    Ok(json!({ "rows": count, "absence": absence }))
}

/// Options of `stallmap diff`, for the open captures.
fn diff_args(session: &Session, options: &[Value]) -> Outcome<DiffArgs> {
    let captures = session.captures().iter().map(|capture| format!("{0}={0}", capture.name));
    let options = options.iter().filter_map(Value::as_str).map(str::to_owned);
    let words = ["stallmap", "diff"].map(str::to_owned).into_iter().chain(captures).chain(options);
    let wrong = |text: String| CommandFailure::message(USAGE, text);
    match CliArgs::try_parse_from(words).map(|cli| cli.command) {
        Ok(Some(StallmapCommand::Diff(args))) => Ok(args),
        Ok(_) => Err(wrong("the options are not of `stallmap diff`".to_owned())),
        Err(error) => {
            let text = error.to_string();
            Err(wrong(text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()))
        }
    }
}

fn unwritten(error: WriteError) -> CommandFailure {
    match error {
        WriteError::Io(error) => CommandFailure::io(error, "write to standard output"),
        other => CommandFailure::new(QUERY, anyhow::Error::from(other).context("write rows")),
    }
}
