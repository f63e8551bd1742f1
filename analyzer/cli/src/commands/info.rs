//! `stallmap info`: the content of a capture, and the documentation of its tables and views.

use arrow::array::temporal_conversions::timestamp_ns_to_datetime;
use stallmap::session::Session;
use stallmap_schema::capture::manifest::Manifest;

use crate::commands::describe;
use stallmap_console::args::InfoArgs;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::explain::arrow_failure;
use stallmap_console::explain::explain;
use stallmap_console::output;
use stallmap_console::output::number::{bytes, grouped};
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::table::TextTable;
use stallmap_console::output::value::NumberFormat;

/// Properties of each run.
const RUNS: &str = "\
SELECT run_id AS run, instrument, rank, program, arguments, working_directory, host, system,
       date_trunc('second', to_timestamp_nanos(started_ns)) AS started, ended_ns - started_ns AS lasted_ns,
       exit_code, exit_signal, driver_version, CAST(cuda_version AS VARCHAR) AS cuda_version, instrument_version,
       python_version, torch_version, sampling_period_cycles
FROM run ORDER BY run_id";

const DEVICES: &str = "\
SELECT DISTINCT device_id AS device, name, compute_major || '.' || compute_minor AS compute,
       multiprocessor_count AS multiprocessors, memory_bytes, l2_bytes, sm_clock_khz, memory_clock_khz
FROM device ORDER BY device_id, name";

/// Prints the content of a capture, or documents one name.
pub(super) fn run(context: &CommandContext, args: &InfoArgs) -> Outcome {
    let session = context.open(&[(None, args.capture.clone())])?;
    let runtime = runtime()?;
    let text = match &args.name {
        Some(name) => runtime.block_on(describe::document(&session, name))?,
        None if args.tables || args.views => lists(&session, args)?,
        None => runtime.block_on(overview(&session))?,
    };
    output::print(&text).map(|()| OK)
}

async fn overview(session: &Session) -> Outcome<String> {
    let mut text = Vec::new();
    for capture in session.captures() {
        part(&mut text, "Capture", &facts(capture.reader.manifest()))?;
    }
    part(&mut text, "Runs", &rows(session, RUNS).await?.transposed())?;
    part(&mut text, "Devices", &rows(session, DEVICES).await?.transposed())?;
    text.extend_from_slice(
        b"\n--tables and --views list what a query can read, and a name behind the capture documents one.\n",
    );
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The tables and the views, as they were asked for.
fn lists(session: &Session, args: &InfoArgs) -> Outcome<String> {
    let mut text = Vec::new();
    if args.tables {
        part(&mut text, "Tables", &describe::tables(session))?;
    }
    if args.views {
        part(&mut text, "Views", &describe::views(session)?)?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn part(text: &mut Vec<u8>, title: &str, table: &TextTable) -> Outcome<()> {
    let canvas = output::page();
    if !text.is_empty() {
        text.push(b'\n');
    }
    text.extend(format!("{}\n", canvas.paint.text(TextRole::Heading, title)).bytes());
    output::written(table.draw(text, canvas))
}

async fn rows(session: &Session, sql: &str) -> Outcome<TextTable> {
    let fail = |error| explain(error, Some(session));
    let frame = session.sql(sql).await.map_err(fail)?;
    let batches = frame.collect().await.map_err(|error| fail(error.into()))?;
    TextTable::from_batches(&batches, NumberFormat::Report).map_err(arrow_failure)
}

fn facts(manifest: &Manifest) -> TextTable {
    let size: u64 = manifest.entries().map(|(_, bytes, _)| bytes).sum();
    let created = timestamp_ns_to_datetime(manifest.created_ns);
    let created = created.map(|time| time.format("%Y-%m-%d %H:%M:%S UTC").to_string()).unwrap_or_default();
    let rows = [
        ("capture id", manifest.capture_id.clone()),
        ("format", format!("{}.{}", manifest.format.major, manifest.format.minor)),
        ("written by", format!("stallmap {}", manifest.writer)),
        ("created", created),
        ("hashes", manifest.hash_algorithm.clone()),
        (
            "content",
            format!(
                "{} in {} tables and {} other files",
                bytes(size as f64),
                manifest.tables.len(),
                manifest.files.len()
            ),
        ),
        ("rows", grouped(manifest.tables.iter().map(|table| i128::from(table.rows)).sum())),
    ];
    TextTable::of_text(["what", "value"], rows.map(|(name, value)| [name.to_owned(), value]).to_vec())
}
