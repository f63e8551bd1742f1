//! Pages of Nsight Compute as CSV: hardware counters of kernels, with their units. Raw pages have a line per kernel.
//! The page that ncu prints by default, of details, has one per metric.

mod other;
mod separator;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader, Read};

use crate::error::{ReadError, ReadResult};
use crate::formats::decimal::integer;
use crate::formats::input::ImportInput;
use csv::StringRecord;
use stallmap_schema::word::{Instrument, LossKind};

use self::separator::DecimalSeparator;
use self::survey::PageSurvey;
use crate::model::{TraceCounter, TraceKernel, TraceModel, TraceProcess};

/// Most kernels of a file.
const MAX_ROWS: usize = 10_000_000;
/// Most bytes before the header: ncu prints messages there.
const MAX_HEAD_BYTES: u64 = 1 << 20;

/// The metric of durations.
const DURATION: &str = "gpu__time_duration.sum";

/// Most that a whole number is off by its scale.
const MAX_ROUNDING: f64 = 1e-6;

/// Columns that describe a kernel. All others are metrics.
const DESCRIBED: [&str; 12] = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Kernel Time",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
];

/// The column that only the page of details has.
const METRIC_NAME: &str = "Metric Name";
/// Labels on that page of metrics that are read, with the names of the metrics.
const LABELS: [(&str, &str); 4] = [
    ("Duration", DURATION),
    ("Registers Per Thread", "launch__registers_per_thread"),
    ("Static Shared Memory Per Block", "launch__shared_mem_per_block_static"),
    ("Dynamic Shared Memory Per Block", "launch__shared_mem_per_block_dynamic"),
];

/// Reads a page.
pub(crate) fn read(input: &ImportInput) -> ReadResult<TraceModel> {
    let refused = |reason: &str| {
        ReadError::message(format!("`{}` is not a file that can be imported: {reason}", input.path.display()))
            .hint("the table in docs/src/guide/import.md lists the files that can be imported".to_owned())
    };
    let mut reader = reader(input)?;
    let mut records = reader.records();
    let mut next = || records.next().transpose().map_err(|error| refused(&error.to_string()));
    let header = next()?.filter(|header| header.iter().any(|name| name == "Kernel Name"));
    let Some(header) = header else {
        return Err(other::tool(input)?.unwrap_or_else(|| refused("it has no header with `Kernel Name`")));
    };
    let is_raw = !header.iter().any(|name| name == METRIC_NAME);
    let mut units = StringRecord::new();
    if is_raw {
        units = next()?.ok_or_else(|| refused("it has no line of units"))?;
        if integer(units.get(0).unwrap_or_default()).is_some() {
            return Err(refused("its second line has no units: write it with `--page raw`"));
        }
    }
    let survey = PageSurvey::read(input, &header, is_raw)?;
    let decimal = survey.evidence.decimal().ok_or_else(|| {
        refused("its numbers have points and commas for decimals: write it again with `LC_ALL=C`")
    })?;
    let mut page = MetricPage { header, units, decimal, sections: HashMap::new() };
    let mut trace = TraceModel { tool: "ncu", ..TraceModel::default() };
    let mut processes: BTreeMap<u32, usize> = BTreeMap::new();
    let mut kernels: BTreeMap<(i64, i64), usize> = BTreeMap::new();
    while let Some(record) = next()? {
        if let Some(at) = survey.cut_at(&record) {
            trace.losses.add(LossKind::Source, "records in which the file ends", Some(&format!("byte {at}")));
            continue;
        }
        if trace.kernels.len() >= MAX_ROWS {
            return Err(refused(&format!("it has more than {MAX_ROWS} kernels")));
        }
        let Some(id) = page.integer(&record, "ID") else {
            // Messages of ncu, and what the program prints.
            trace.losses.add(LossKind::Source, "lines that are not of the page", record.get(0));
            continue;
        };
        if is_raw {
            page.add(&mut trace, &mut processes, &record);
        } else {
            let process = page.integer(&record, "Process ID").unwrap_or(0);
            let known = kernels.entry((process, id));
            let kernel = *known.or_insert_with(|| page.add(&mut trace, &mut processes, &record));
            page.detail(&mut trace, kernel, &record);
        }
    }
    if decimal == DecimalSeparator::Comma {
        trace.facts.insert("ncu.decimals".to_owned(), "comma".to_owned());
    }
    if trace.kernels.is_empty() {
        return Err(refused("it has no kernels"));
    }
    finish(&mut trace, processes);
    Ok(trace)
}

/// Adds the processes, and what no page has.
fn finish(trace: &mut TraceModel, processes: BTreeMap<u32, usize>) {
    let mut places: Vec<(usize, u32)> =
        processes.into_iter().map(|(number, place)| (place, number)).collect();
    places.sort_unstable();
    trace.processes = places
        .into_iter()
        .map(|(_, number)| TraceProcess::with_number(number, Instrument::Counters))
        .collect();
    lose_durations(trace);
    for part in [
        "times of launches",
        "ops, tensors and Python stacks",
        "memory accesses",
        "stall samples per instruction",
    ] {
        trace.losses.lacks(part);
    }
}

/// The records of a page.
fn reader(input: &ImportInput) -> ReadResult<csv::Reader<impl Read + use<>>> {
    Ok(csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(page(input)?))
}

/// Counts kernels whose duration was not measured, if that of others was.
pub(crate) fn lose_durations(trace: &mut TraceModel) {
    let timed = trace.counters.iter().filter(|counter| &*counter.metric == DURATION);
    let timed: BTreeSet<usize> = timed.map(|counter| counter.kernel).collect();
    let without = trace.kernels.len() - timed.len();
    if !timed.is_empty() {
        trace.losses.add_many(LossKind::Source, "kernels without a measured duration", without as u64, None);
    }
}

/// The bytes from the header on. Messages of ncu before it begin with `==`.
fn page(input: &ImportInput) -> ReadResult<impl Read + use<>> {
    Ok(page_from(input)?.0)
}

/// The same, and the position of the first byte.
fn page_from(input: &ImportInput) -> ReadResult<(impl Read + use<>, u64)> {
    let wrong = |error| ReadError::io(error, format!("read `{}`", input.path.display()));
    let mut reader = BufReader::new(input.open_records()?);
    let mut at = 0;
    loop {
        let is_header = reader.fill_buf().map_err(wrong)?.first().is_none_or(|byte| *byte == b'"');
        if is_header || at >= MAX_HEAD_BYTES {
            return Ok((reader, at));
        }
        let mut line = Vec::new();
        let left = MAX_HEAD_BYTES - at;
        at += reader.by_ref().take(left).read_until(b'\n', &mut line).map_err(wrong)? as u64;
    }
}

/// Columns of a page with their units, and the separator of decimals.
struct MetricPage {
    header: StringRecord,
    units: StringRecord,
    decimal: DecimalSeparator,
    /// The section that has a label first. The same label of another one is another metric.
    sections: HashMap<String, String>,
}

impl MetricPage {
    fn field<'a>(&self, record: &'a StringRecord, name: &str) -> Option<&'a str> {
        self.header.iter().position(|column| column == name).and_then(|place| record.get(place))
    }

    fn integer(&self, record: &StringRecord, name: &str) -> Option<i64> {
        self.field(record, name).and_then(value_of)
    }

    /// Adds a kernel with the counters that have columns. Returns its place.
    fn add(
        &self,
        trace: &mut TraceModel,
        processes: &mut BTreeMap<u32, usize>,
        record: &StringRecord,
    ) -> usize {
        let field = |name: &str| self.field(record, name);
        let number = |name: &str| self.integer(record, name);
        let process = number("Process ID").and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
        let next = processes.len();
        let place = *processes.entry(process).or_insert(next);
        let kernel = trace.kernels.len();
        trace.kernels.push(TraceKernel {
            process: place,
            name: field("Kernel Name").unwrap_or("(unknown kernel)").into(),
            device: number("Device").and_then(|device| i32::try_from(device).ok()).unwrap_or(-1),
            stream: number("Stream").and_then(|stream| u64::try_from(stream).ok()).unwrap_or(0),
            time_ns: None,
            grid: field("Grid Size").and_then(extent),
            block: field("Block Size").and_then(extent),
            ..TraceKernel::default()
        });
        for ((name, unit), text) in self.header.iter().zip(&self.units).zip(record) {
            if !DESCRIBED.contains(&name) {
                self.counter(trace, kernel, name, unit, text);
            }
        }
        kernel
    }

    /// Adds the counter of a line of details. Other lines are of rules.
    fn detail(&mut self, trace: &mut TraceModel, kernel: usize, record: &StringRecord) {
        let [label, section, unit, text] = [METRIC_NAME, "Section Name", "Metric Unit", "Metric Value"]
            .map(|column| self.field(record, column).unwrap_or_default());
        if label.is_empty() {
            return;
        }
        if !self.sections.contains_key(label) {
            self.sections.insert(label.to_owned(), section.to_owned());
        }
        if self.sections.get(label).is_some_and(|first| first != section) {
            return self.counter(trace, kernel, &format!("{section}: {label}"), unit, text);
        }
        let name = LABELS.iter().find(|(known, _)| *known == label).map_or(label, |(_, name)| name);
        self.counter(trace, kernel, name, unit, text);
    }

    fn counter(&self, trace: &mut TraceModel, kernel: usize, name: &str, unit: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let Some(value) = self.decimal.number(text) else {
            trace.losses.add(LossKind::Source, "metrics whose value is a text", Some(name));
            return;
        };
        let Some((unit, factor)) = base(unit) else {
            trace.losses.add(LossKind::Source, "metrics with an unknown scaled unit", Some(unit));
            return;
        };
        let value = value * factor;
        if let Some(kernel) = trace.kernels.get_mut(kernel) {
            describe(kernel, name, value);
        }
        trace.counters.push(TraceCounter { kernel, metric: name.into(), value: Some(value), unit });
    }
}

/// Takes a property of the launch from the metric that has it, in its base unit.
pub(crate) fn describe(kernel: &mut TraceKernel, metric: &str, value: f64) {
    // A scaled number is off by a rounding.
    let whole = value.round();
    if whole < 0.0 || whole > f64::from(u32::MAX) || (value - whole).abs() > MAX_ROUNDING {
        return;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let value = whole as u32;
    let (fixed, dynamic) = kernel.shared_bytes.unwrap_or_default();
    let [x, y, z] = kernel.cluster.unwrap_or([1; 3]);
    match metric {
        "launch__registers_per_thread" => kernel.registers = Some(value),
        "launch__shared_mem_per_block_static" => kernel.shared_bytes = Some((value, dynamic)),
        "launch__shared_mem_per_block_dynamic" => kernel.shared_bytes = Some((fixed, value)),
        "launch__cluster_dim_x" if value > 0 => kernel.cluster = Some([value, y, z]),
        "launch__cluster_dim_y" if value > 0 => kernel.cluster = Some([x, value, z]),
        "launch__cluster_dim_z" if value > 0 => kernel.cluster = Some([x, y, value]),
        "launch__device_id" => kernel.device = i32::try_from(value).unwrap_or(kernel.device),
        _ => {}
    }
}

/// A whole number, with any separators of its groups.
fn value_of(text: &str) -> Option<i64> {
    integer(&text.replace([',', '.'], ""))
}

/// Three sizes, as in `(256, 1, 1)`.
fn extent(text: &str) -> Option<[u32; 3]> {
    let sizes: Vec<u32> =
        text.trim_matches(['(', ')']).split(',').filter_map(|size| size.trim().parse().ok()).collect();
    <[u32; 3]>::try_from(sizes).ok().filter(|sizes| sizes.iter().all(|size| *size > 0))
}

/// A unit without a scale, as CUPTI names it, and the factor to it. None for a scale that is not known.
fn base(unit: &str) -> Option<(String, f64)> {
    let known = match unit {
        "ns" | "nsecond" => Some(("nanosecond", 1.0)),
        "us" | "usecond" => Some(("nanosecond", 1e3)),
        "ms" | "msecond" => Some(("nanosecond", 1e6)),
        "s" | "second" => Some(("nanosecond", 1e9)),
        "%" => Some(("percent", 1.0)),
        _ => None,
    };
    if let Some((name, factor)) = known {
        return Some((name.to_owned(), factor));
    }
    let factors = [('K', 1e3), ('M', 1e6), ('G', 1e9), ('T', 1e12), ('P', 1e15)];
    let mut rest = unit.chars();
    let scale = rest.next().and_then(|first| factors.iter().find(|(letter, _)| *letter == first));
    match scale {
        None => Some((unit.to_owned(), 1.0)),
        Some((_, factor)) => {
            let rest = rest.as_str().to_lowercase();
            ["byte", "hz", "inst", "cycle"]
                .iter()
                .any(|name| rest.starts_with(name))
                .then_some((rest, *factor))
        }
    }
}
