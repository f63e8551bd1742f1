//! The timeline to zoom into: work of the GPUs and of the CPU, and steps, as the page's script reads them.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::pack::{PackedColumn, packed};
use crate::report::page::ask::read;
use crate::report::page::json::short;
use crate::report::page::links::PageLinks;
use stallmap_console::answer::SectionAnswer;
use stallmap_console::exit::Outcome;
use stallmap_console::rows;

/// Pieces of work of the GPUs in the page.
pub(crate) const MAX_ACTIVITIES: u64 = 100_000;
/// Ops, ranges and waits in the page.
pub(crate) const MAX_SPANS: u64 = 100_000;
/// Causes of gaps, by number. The first is unknown.
const CAUSES: [&str; 4] = ["", "start", "late launch", "late copy"];

rows! {
    /// A piece of work of a GPU.
    #[derive(Clone, Debug)]
    struct TimelineWork {
        run_id: u64,
        rank: Option<i64>,
        device_id: i64,
        stream_id: Option<u64>,
        base_ns: i64,
        from_ns: i64,
        duration_ns: u64,
        kind: String,
        name: Option<String>,
        function_id: Option<u64>,
        program_step: Option<i64>,
        thread_id: Option<i64>,
        call_from_ns: Option<i64>,
        call_ns: Option<u64>,
        op: Option<String>,
        gap_ns: Option<u64>,
        gap_cause: Option<String>,
        all_count: u64,
    }

    /// An op, a range or a wait.
    #[derive(Clone, Debug)]
    struct TimelineSpan {
        run_id: u64,
        rank: Option<i64>,
        thread_id: Option<u64>,
        from_ns: i64,
        duration_ns: i64,
        kind: String,
        name: Option<String>,
        is_derived: bool,
        all_count: u64,
    }

    /// A step, or a phase without steps.
    #[derive(Clone, Debug)]
    struct TimelineStep {
        run_id: u64,
        rank: Option<i64>,
        device_id: i64,
        program_phase: String,
        program_step: Option<i64>,
        from_ns: i64,
        duration_ns: i64,
        compute_share: Option<f64>,
        collective_share: Option<f64>,
        copy_share: Option<f64>,
        idle_share: Option<f64>,
        launch_idle_share: Option<f64>,
        input_idle_share: Option<f64>,
        wait_idle_share: Option<f64>,
        is_median: bool,
    }
}

/// Names, each once: text, kind, anchor of the kernel's waits.
#[derive(Debug, Default)]
struct TimelineNames {
    places: HashMap<(String, String, Option<u64>), u64>,
    list: Vec<Value>,
}

impl TimelineNames {
    fn place(&mut self, name: Option<&str>, kind: &str, function: Option<u64>, links: &PageLinks) -> u64 {
        let name = name.unwrap_or("(unnamed)");
        *self.places.entry((name.to_owned(), kind.to_owned(), function)).or_insert_with(|| {
            self.list.push(json!([name, kind, function.and_then(|function| links.kernel(function))]));
            self.list.len() as u64 - 1
        })
    }
}

/// The data of the drawing. None without measured work.
pub(super) fn data(
    work: &SectionAnswer,
    host: &SectionAnswer,
    steps: &SectionAnswer,
    links: &PageLinks,
) -> Outcome<Option<Value>> {
    let work: Vec<TimelineWork> = read(work)?;
    let Some(first) = work.first() else { return Ok(None) };
    let host: Vec<TimelineSpan> = read(host)?;
    let steps: Vec<TimelineStep> = read(steps)?;
    let mut names = TimelineNames::default();
    let (streams, activities) = activities(&work, &mut names, links)?;
    let (threads, spans) = spans(&host, &mut names, links)?;
    Ok(Some(json!({
        "names": names.list,
        "streams": streams,
        "activities": activities,
        "threads": threads,
        "spans": spans,
        "steps": steps.iter().map(step).collect::<Vec<_>>(),
        "counts": [work.len(), first.all_count, host.len(), host.first().map_or(0, |span| span.all_count)],
        "causes": CAUSES,
    })))
}

/// Streams with the numbers of their rows, and the rows.
fn activities(
    work: &[TimelineWork],
    names: &mut TimelineNames,
    links: &PageLinks,
) -> Outcome<(Vec<Value>, String)> {
    let [mut from, mut length, mut name, mut step, mut thread] = <[PackedColumn; 5]>::default();
    let [mut call_length, mut call, mut op, mut gap, mut cause] = <[PackedColumn; 5]>::default();
    let mut streams = Vec::new();
    for rows in
        work.chunk_by(|a, b| (a.run_id, a.device_id, a.stream_id) == (b.run_id, b.device_id, b.stream_id))
    {
        let Some(first) = rows.first() else { continue };
        // Texts: the numbers of 64 bits are larger than those of the script.
        streams.push(json!({
            "run": first.run_id, "rank": first.rank, "device": first.device_id, "stream": first.stream_id,
            "base": first.base_ns.to_string(), "count": rows.len(),
        }));
        let mut end = 0;
        for row in rows {
            from.difference(row.from_ns, end);
            end = row.from_ns.saturating_add_unsigned(row.duration_ns);
            length.count(row.duration_ns);
            name.count(names.place(row.name.as_deref(), &row.kind, row.function_id, links));
            step.next(row.program_step.unwrap_or(-1));
            thread.next(row.thread_id.unwrap_or(-1));
            // The call's end is at or behind its begin: a length of 0 is no call.
            let called = row.call_from_ns.zip(row.call_ns);
            call_length.count(called.map_or(0, |(_, length)| length.saturating_add(1)));
            if let Some((begin, _)) = called {
                call.next(begin);
            }
            op.count(
                row.op.as_deref().map_or(0, |op| names.place(Some(op), "op", None, links).saturating_add(1)),
            );
            gap.count(row.gap_ns.unwrap_or(0));
            let found = CAUSES.iter().position(|name| row.gap_cause.as_deref() == Some(name));
            cause.count(found.unwrap_or(0) as u64);
        }
    }
    let text = packed(&[from, length, name, step, thread, call_length, call, op, gap, cause])?;
    Ok((streams, text))
}

/// Threads with the numbers of their rows, and the rows.
fn spans(
    host: &[TimelineSpan],
    names: &mut TimelineNames,
    links: &PageLinks,
) -> Outcome<(Vec<Value>, String)> {
    let [mut from, mut length, mut name] = <[PackedColumn; 3]>::default();
    let mut threads = Vec::new();
    for rows in host.chunk_by(|a, b| (a.run_id, a.thread_id) == (b.run_id, b.thread_id)) {
        let Some(first) = rows.first() else { continue };
        let derived = rows.iter().filter(|row| row.is_derived).count();
        threads.push(json!({
            "run": first.run_id, "rank": first.rank, "thread": first.thread_id, "count": rows.len(),
            "derived": derived,
        }));
        for row in rows {
            from.next(row.from_ns);
            length.count(u64::try_from(row.duration_ns).unwrap_or(0));
            let kind =
                if row.is_derived { format!("{}, by its launch calls", row.kind) } else { row.kind.clone() };
            name.count(names.place(row.name.as_deref(), &kind, None, links));
        }
    }
    Ok((threads, packed(&[from, length, name])?))
}

fn step(step: &TimelineStep) -> Value {
    let shares = [
        step.compute_share,
        step.collective_share,
        step.copy_share,
        step.idle_share,
        step.launch_idle_share,
        step.input_idle_share,
        step.wait_idle_share,
    ];
    json!({
        "run": step.run_id, "rank": step.rank, "device": step.device_id, "phase": step.program_phase,
        "step": step.program_step, "from": step.from_ns, "length": step.duration_ns,
        "shares": shares.map(|share| share.map(short)), "median": step.is_median,
    })
}
