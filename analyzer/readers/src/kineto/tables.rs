//! Traces that Perfetto's `trace_processor` exported as tables: as `arrow_tar`, or as `sqlite`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::error::{ReadError, ReadResult};
use crate::formats::input::archive::tar_files;
use crate::formats::input::{ImportInput, archive_bytes};
use crate::model::TraceModel;
use crate::nsys::cell::SqlRow;
use crate::nsys::folder::TableFolder;
use crate::nsys::{ReportTables, report};

use super::KinetoReader;
use super::event::{EventArguments, TraceEvent};

/// The tables that are read.
const TABLES: [&str; 5] = ["slice", "track", "thread", "process", "args"];
/// Texts in front of their names: tables that are no views, now and in earlier releases.
const PREFIXES: [&str; 3] = ["__intrinsic_", "", "internal_"];
/// Texts in front of names of arguments: those of JSON, and those of packets.
const ARGUMENTS: [&str; 2] = ["args.", "debug."];
/// Inputs of an op, and elements of a list.
const MAX_INDEX: usize = 1 << 10;
/// Dimensions of a tensor in PyTorch. Without the bound, one row could ask for thousands of times its size.
const MAX_DIMENSIONS: usize = 64;

/// Reads an archive of tables: those that are needed are unpacked into a temporary folder.
pub(crate) fn read_archive(input: &ImportInput) -> ReadResult<TraceModel> {
    let path = &input.path;
    let wrong = |error: io::Error| ReadError::io(error, format!("unpack `{}`", path.display()));
    let folder = tempfile::tempdir().map_err(wrong)?;
    let mut file = archive_bytes(path).map_err(wrong)?;
    let count = tar_files(&mut file, |name, content| {
        let name = name.rsplit('/').next().unwrap_or(name);
        let table = name.strip_suffix(".arrow").unwrap_or(name);
        let is_read = PREFIXES
            .iter()
            .any(|prefix| table.strip_prefix(prefix).is_some_and(|table| TABLES.contains(&table)));
        if is_read {
            let mut table = File::create(folder.path().join(format!("{table}.arrow")))?;
            io::copy(content, &mut table)?;
        }
        Ok(())
    })
    .map_err(wrong)?;
    if count == 0 || fs::read_dir(folder.path()).map_err(wrong)?.next().is_none() {
        let message = format!("`{}` has tables of Arrow, and none of a trace", path.display());
        let hint = "give the archive of `trace_processor export arrow_tar`, or the folder of `nsys export -t arrowdir`";
        return Err(ReadError::message(message).hint(hint.to_owned()));
    }
    // Messages name the archive in place of the folder.
    report(ReportTables::Folder(TableFolder::open(folder.path())), path).map_err(|error| {
        let text = error.to_string();
        let text = text.replace(&folder.path().display().to_string(), &path.display().to_string());
        ReadError::message(text).hint(error.hint)
    })
}

/// Reads the tables. None without slices.
pub(crate) fn read(tables: &ReportTables, path: &Path) -> ReadResult<Option<TraceModel>> {
    let mut reader = TableReader { tables, reading: KinetoReader::default(), arguments: HashMap::new() };
    reader.arguments()?;
    let lanes = reader.lanes()?;
    if !reader.slices(&lanes)? {
        return Ok(None);
    }
    reader.reading.trace.facts.insert("kineto.form".to_owned(), "tables".to_owned());
    reader.reading.checked(path).map(Some)
}

/// A trace while it is read.
struct TableReader<'a> {
    tables: &'a ReportTables,
    reading: KinetoReader,
    /// Arguments by the number of their set.
    arguments: HashMap<i64, EventArguments>,
}

impl TableReader<'_> {
    /// Visits the rows of a table. False if there is none.
    fn rows(&self, table: &str, columns: &[&str], mut visit: impl FnMut(&SqlRow)) -> ReadResult<bool> {
        for prefix in PREFIXES {
            if self.tables.rows(&format!("{prefix}{table}"), columns, &mut visit)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn arguments(&mut self) -> ReadResult<()> {
        let mut sets = std::mem::take(&mut self.arguments);
        let is_there = self.rows("args", &["arg_set_id", "key", "int_value", "string_value"], |row| {
            let Some((set, key)) = row.integer(0).zip(row.text(1)) else { return };
            let number = row.integer(2).map(|number| number.to_string());
            let Some(value) = number.or_else(|| row.text(3).map(str::to_owned)) else { return };
            let name = ARGUMENTS.iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(key);
            put(sets.entry(set).or_default(), name, value);
        })?;
        self.arguments = sets;
        if !is_there {
            self.reading.trace.losses.lacks("arguments of events");
        }
        Ok(())
    }

    /// Process and thread of each track.
    fn lanes(&self) -> ReadResult<HashMap<i64, (String, String)>> {
        let mut processes = HashMap::new();
        self.rows("process", &["id", "pid"], |row| {
            processes.extend(row.integer(0).zip(row.integer(1)));
        })?;
        let mut threads = HashMap::new();
        self.rows("thread", &["id", "tid", "upid"], |row| {
            let process = row.integer(2).and_then(|upid| processes.get(&upid)).copied();
            let lane = (process.unwrap_or(0), row.integer(1).unwrap_or(0));
            threads.extend(row.integer(0).map(|id| (id, lane)));
        })?;
        let mut lanes = HashMap::new();
        self.rows("track", &["id", "utid", "upid"], |row| {
            let thread = row.integer(1).and_then(|utid| threads.get(&utid)).copied();
            let process = || Some((*processes.get(&row.integer(2)?)?, 0));
            let lane = thread.or_else(process).unwrap_or_default();
            lanes.extend(row.integer(0).map(|id| (id, (lane.0.to_string(), lane.1.to_string()))));
        })?;
        Ok(lanes)
    }

    /// Adds the slices as events. False without their table.
    fn slices(&mut self, lanes: &HashMap<i64, (String, String)>) -> ReadResult<bool> {
        let mut reading = std::mem::take(&mut self.reading);
        let sets = std::mem::take(&mut self.arguments);
        let columns = ["ts", "dur", "track_id", "category", "name", "arg_set_id"];
        let mut result = Ok(());
        let is_there = self.rows("slice", &columns, |row| {
            let text = |column: usize| row.text(column).unwrap_or_default().to_owned();
            let event = TraceEvent {
                phase: "X".to_owned(),
                category: text(3),
                name: text(4),
                thread: row.integer(2).and_then(|track| lanes.get(&track)).cloned().unwrap_or_default(),
                begin_ns: row.integer(0),
                // A slice that the trace does not end has the length -1.
                duration_ns: row.integer(1).filter(|length| *length >= 0),
                // Slices with equal arguments share a set.
                arguments: row.integer(5).and_then(|set| sets.get(&set)).cloned().unwrap_or_default(),
                ..TraceEvent::default()
            };
            if result.is_ok() {
                result = reading.add(event);
            }
        })?;
        self.reading = reading;
        result.map(|()| is_there)
    }
}

/// Sets an argument. Elements of lists have their places behind the name, as in `grid[2]`.
fn put(arguments: &mut EventArguments, name: &str, value: String) {
    let Some((name, places)) = name.split_once('[') else { return arguments.put(name, value) };
    let places = places.trim_end_matches(']').split("][");
    let places: Option<Vec<usize>> =
        places.map(|place| place.parse().ok().filter(|place| *place < MAX_INDEX)).collect();
    let number = || value.parse::<i64>().ok();
    let axis = |extent: &mut Option<[u32; 3]>, axis: usize| {
        let slot = extent.get_or_insert([1; 3]).get_mut(axis);
        if let Some((slot, size)) = slot.zip(number().and_then(|size| u32::try_from(size).ok())) {
            *slot = size;
        }
    };
    match (name, places.as_deref().unwrap_or_default()) {
        ("grid", [place]) => axis(&mut arguments.grid, *place),
        ("block", [place]) => axis(&mut arguments.block, *place),
        ("Input type", [input]) => *element(&mut arguments.inputs.types, *input) = value,
        ("Input Dims" | "Input Strides", [input, rest @ ..]) => {
            let is_size = name == "Input Dims";
            let inputs = &mut arguments.inputs;
            let tensors = element(if is_size { &mut inputs.sizes } else { &mut inputs.strides }, *input);
            let (tensor, dimension) = match rest {
                [dimension] => (0, *dimension),
                [tensor, dimension] => (*tensor, *dimension),
                _ => return,
            };
            if dimension < MAX_DIMENSIONS {
                *element(element(tensors, tensor), dimension) = number().unwrap_or(0);
            }
        }
        _ => {}
    }
}

/// An element of a list, which grows up to it.
fn element<T: Default>(list: &mut Vec<T>, place: usize) -> &mut T {
    if list.len() <= place {
        list.resize_with(place + 1, T::default);
    }
    &mut list[place]
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::nsys::database::OpenDatabase;

    #[test]
    fn slices_of_one_set_have_its_arguments() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let tables = "CREATE TABLE slice (ts, dur, track_id, category, name, arg_set_id);
            INSERT INTO slice VALUES (10, 5, 1, 'kernel', 'k', 3), (20, 5, 1, 'kernel', 'k', 3);
            CREATE TABLE args (arg_set_id, key, int_value, string_value);
            INSERT INTO args VALUES (3, 'args.stream', 7, NULL), (3, 'args.registers per thread', 32, NULL)";
        Connection::open(file.path()).unwrap().execute_batch(tables).unwrap();
        let tables = ReportTables::Database(OpenDatabase::open(file.path()).unwrap());
        let trace = read(&tables, file.path()).unwrap().unwrap();
        let kernels: Vec<_> = trace.kernels.iter().map(|kernel| (kernel.stream, kernel.registers)).collect();
        assert_eq!(kernels, [(7, Some(32)), (7, Some(32))]);
    }
}
