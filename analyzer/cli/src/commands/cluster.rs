//! `stallmap cluster`, and `stallmap sql --cluster`: the program `stallmap-cluster`, which is installed apart.

use std::io::{BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use arrow::ipc::reader::StreamReader;
use stallmap::location::CaptureLocation;
use stallmap::statements;
use stallmap_console::args::{ClusterArgs, SqlArgs};
use stallmap_console::context::CommandContext;
use stallmap_console::exit::{CommandFailure, IO, OK, Outcome, QUERY, USAGE};
use stallmap_console::output;
use stallmap_console::output::rows::{self, RowStyle};

use crate::commands::query::{OutputFile, RowTarget};

/// The program.
const PROGRAM: &str = "stallmap-cluster";

/// Runs the program with the same arguments.
pub(super) fn run(args: &ClusterArgs) -> Outcome {
    // Only a failure returns.
    Err(not_started(&Command::new(program()).args(&args.arguments).exec()))
}

/// The program next to this one, else that of the path.
fn program() -> PathBuf {
    let neighbour = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    neighbour.filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}

fn not_started(error: &std::io::Error) -> CommandFailure {
    CommandFailure::message(IO, format!("`{PROGRAM}` cannot be started: {error}"))
        .hint("build it with scripts/cluster, and put it next to `stallmap`".to_owned())
}

/// Runs statements on a cluster, one after the other.
pub(super) fn statements(
    context: &CommandContext,
    (scheduler, args): (&str, &SqlArgs),
    text: Option<&str>,
    (style, target): (RowStyle, &RowTarget),
) -> Outcome {
    let Some(text) = text else {
        return Err(CommandFailure::message(USAGE, "there is no shell for a cluster")
            .hint("give a statement with -c or -f".to_owned()));
    };
    for sql in statements::split(text) {
        let mut command = Command::new(program());
        command.arg("sql").arg(format!("--scheduler={scheduler}")).arg(format!("--command={sql}"));
        command.arg(format!("--cost-from={}", context.resources().cost_from));
        command.args((!context.resources().reads_stored).then_some("--recompute"));
        command.arg("--over").args(args.over.iter().map(CaptureLocation::address));
        statement(&mut command, style, target)?;
    }
    Ok(OK)
}

/// Writes the rows of a statement. A failure leaves no file.
fn statement(command: &mut Command, style: RowStyle, target: &RowTarget) -> Outcome<()> {
    let program = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = program.spawn().map_err(|error| not_started(&error))?;
    let errors = program.stderr.take();
    let messages = thread::spawn(move || {
        let mut text = Vec::new();
        // What was read until a failure is all there is.
        drop(errors.map(|mut errors| errors.read_to_end(&mut text)));
        String::from_utf8_lossy(&text).into_owned()
    });
    let written = write(&mut program, style, target);
    if written.is_err() {
        // It may wait for this end of the pipe, or be over.
        drop(program.kill());
    }
    let status = program.wait().map_err(|error| CommandFailure::io(error, format!("wait for {PROGRAM}")))?;
    let messages = messages.join().unwrap_or_default();
    match written {
        Ok(output) if status.success() => {
            messages.lines().for_each(|line| output::note(output::in_line(line)));
            output.keep()
        }
        Err(failure) if failure.is_broken_pipe() || messages.is_empty() => Err(failure),
        _ => Err(failure(&messages)),
    }
}

/// The failure that the program printed.
fn failure(messages: &str) -> CommandFailure {
    let error = messages.split_once("error: ").map_or(messages, |(_, error)| error);
    let (error, hint) =
        error.split_once("\nhint: ").map_or((error, None), |(error, hint)| (error, Some(hint)));
    CommandFailure::message(QUERY, error.trim()).hint(hint.map(|hint| hint.trim().to_owned()))
}

fn write<'a>(program: &mut Child, style: RowStyle, target: &'a RowTarget) -> Outcome<OutputFile<'a>> {
    let cut =
        |error| CommandFailure::new(QUERY, anyhow::Error::from(error).context("read the rows of a cluster"));
    let rows =
        program.stdout.take().ok_or_else(|| CommandFailure::message(IO, "the program has no output"))?;
    let stream = StreamReader::try_new(BufReader::new(rows), None).map_err(cut)?;
    let output = OutputFile::new(target, style.format)?;
    let wrong = |error| output.failure(error);
    let mut writer = rows::writer(output.sink()?, &stream.schema(), style).map_err(wrong)?;
    for batch in stream {
        writer.write(&batch.map_err(cut)?).map_err(wrong)?;
    }
    writer.finish().map_err(wrong)?;
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_message_and_the_hint_of_the_program() {
        let failure = failure("warning: x\nerror: the cluster has no executor\nhint: start one\n");
        assert_eq!(failure.reason(), "the cluster has no executor");
        assert_eq!(failure.hint_text(), Some("start one"));
    }
}
