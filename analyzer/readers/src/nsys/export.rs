//! Reports as Nsight Systems records them: its own `nsys export` makes a database of one, if it is installed.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{ReadError, ReadResult};
use crate::formats::input::{FileForm, ImportInput};
use crate::model::TraceModel;

/// Time that an export may take.
const MAX_TIME: Duration = Duration::from_mins(10);
/// Time between looks at it.
const PAUSE: Duration = Duration::from_millis(20);

/// Exports a report to a temporary database, and reads that.
pub(crate) fn read(input: &ImportInput) -> ReadResult<TraceModel> {
    let folder = tempfile::tempdir().map_err(|error| ReadError::io(error, "create a temporary folder"))?;
    let database = folder.path().join("report.sqlite");
    let log = folder.path().join("nsys.log");
    let path = input.path.display();
    let failed = |reason: &str| {
        let message = format!("`{path}` is a report of Nsight Systems, and `nsys export` {reason}");
        let hint =
            "export it with the release that recorded it: `nsys export -t sqlite FILE`, or `-t parquetdir`";
        ReadError::message(message).hint(hint.to_owned())
    };
    let status = match export(&input.path, &database, &log) {
        Ok(status) => status,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(failed("is not on PATH")),
        Err(error) => return Err(failed(&format!("did not run: {error}"))),
    };
    match status {
        Some(status) if status.success() && database.is_file() => {
            super::read(&ImportInput { path: database, form: FileForm::Sqlite, ..input.clone() })
        }
        Some(_) => Err(failed(&format!("fails: {}", last_line(&log)))),
        None => Err(failed(&format!("takes longer than {} minutes", MAX_TIME.as_secs() / 60))),
    }
}

/// Runs the export. None if it takes too long.
fn export(report: &Path, database: &Path, log: &Path) -> io::Result<Option<ExitStatus>> {
    let report = fs::canonicalize(report)?;
    let (output, errors) = (File::create(log)?, File::options().append(true).open(log)?);
    let mut command = Command::new("nsys");
    command.args(["export", "-t", "sqlite", "-o"]).arg(database).arg(report);
    let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn()?;
    wait(child)
}

fn wait(mut child: Child) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > MAX_TIME {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(PAUSE);
    }
}

/// The last line that a program wrote.
fn last_line(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing").trim().to_owned()
}
