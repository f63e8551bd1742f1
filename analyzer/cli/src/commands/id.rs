//! `stallmap id`: the content of captures as one number, and their comparison.

use std::collections::BTreeSet;

use stallmap::location::CaptureLocation;
use stallmap_schema::capture::identity::{CaptureIdentity, RULES};

use stallmap_console::args::share::IdArgs;
use stallmap_console::exit::{DIFFERENT, OK, Outcome};
use stallmap_console::explain::capture_failure;
use stallmap_console::output;
use stallmap_console::output::number::grouped;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::table::TextTable;

/// Displayed digits of a table's number. All are compared.
const SHOWN_DIGITS: usize = 32;

/// Prints the numbers of one capture, or the differences between several.
pub(super) fn run(args: &IdArgs) -> Outcome {
    let mut known: Vec<(&CaptureLocation, String, CaptureIdentity)> = Vec::new();
    for capture in &args.captures {
        let _progress = ProgressSpinner::start(format!("reading {}", capture.display()));
        let fail = |error| capture_failure(&error);
        let reader = capture.open().map_err(fail)?;
        let capture_id = reader.manifest().capture_id.clone();
        known.push((capture, capture_id, CaptureIdentity::from_capture(&reader).map_err(fail)?));
    }
    let mut text = Vec::new();
    for (index, (capture, capture_id, identity)) in known.iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        text.extend(format!("{gap}{}\n", output::path(capture)).bytes());
        let rows = [("content id", &identity.content_id), ("capture id", capture_id)];
        let mut rows: Vec<_> = rows.map(|(name, value)| [name.to_owned(), value.clone()]).to_vec();
        rows.push(["rules".to_owned(), RULES.to_owned()]);
        output::written(TextTable::of_text(["what", "value"], rows).draw(&mut text, output::page()))?;
        if known.len() == 1 {
            text.push(b'\n');
            output::written(parts(identity).draw(&mut text, output::page()))?;
        }
    }
    let different = match known.split_first() {
        Some((first, others)) if !others.is_empty() => {
            let parts: BTreeSet<String> =
                others.iter().flat_map(|other| differing(&first.2, &other.2)).collect();
            text.extend(verdict(&parts).bytes());
            !parts.is_empty()
        }
        _ => false,
    };
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(if different { DIFFERENT } else { OK })
}

/// Each table and file of a capture with its number.
fn parts(identity: &CaptureIdentity) -> TextTable {
    let shown = |hash: &str| hash.chars().take(SHOWN_DIGITS).collect::<String>();
    let tables = identity
        .tables
        .iter()
        .map(|(name, (rows, hash))| [name.clone(), grouped((*rows).into()), shown(hash)]);
    let files = identity.files.iter().map(|(name, hash)| [name.clone(), "-".to_owned(), shown(hash)]);
    TextTable::of_text(["part", "rows", "number"], tables.chain(files).collect())
}

/// Differences between two captures, as text.
fn differing(one: &CaptureIdentity, other: &CaptureIdentity) -> Vec<String> {
    let names: BTreeSet<_> = one.tables.keys().chain(other.tables.keys()).collect();
    let rows =
        |identity: &CaptureIdentity, name: &str| identity.tables.get(name).map_or(0, |(rows, _)| *rows);
    let tables = names.into_iter().filter(|name| one.tables.get(*name) != other.tables.get(*name));
    let mut parts: Vec<_> = tables
        .map(|name| format!("table {name}: {} rows, {} rows", rows(one, name), rows(other, name)))
        .collect();
    let files: BTreeSet<_> = one.files.keys().chain(other.files.keys()).collect();
    let files = files.into_iter().filter(|name| one.files.get(*name) != other.files.get(*name));
    parts.extend(files.map(|name| format!("file {name}")));
    parts
}

fn verdict(parts: &BTreeSet<String>) -> String {
    if parts.is_empty() {
        return "\nThe captures are equal.\n".to_owned();
    }
    let mut text = "\nThe captures differ:\n".to_owned();
    text.extend(parts.iter().map(|part| format!("  {part}\n")));
    text
}
