//! Validity of a capture: container, hashes, schema, order, keys, references, lifetimes, and sums that must
//! come out even.
//!
//! Every rule lists its violations: up to [`SHOWN`] one by one and the rest as a number. A capture that
//! cannot be opened at all is an error of [`crate::capture::reader::CaptureReader::open`], not a violation.

mod access;
mod chain;
mod content;
mod reference;
mod sample;
mod statistics;
mod summary;
mod table;

pub use chain::chained;
pub use statistics::are_true;
pub use table::check_keys;

use std::collections::BTreeMap;
use std::fmt;

use crate::capture::entry;
use crate::capture::error::CaptureError;
use crate::capture::reader::CaptureReader;
use crate::capture::source::EntryBytes;
use crate::tables;

/// Violations of one rule that are listed one by one.
pub const SHOWN: usize = 10;

/// Something that a capture must be and is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: CaptureRule,
    /// The row or entry that breaks the rule, and how.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.word(), self.what)
    }
}

/// A rule that every capture must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaptureRule {
    /// The container holds exactly the entries of the manifest.
    Container,
    /// Every entry has the hash that the manifest states, and the capture's id is that of its entries.
    Hash,
    /// Every table can be read, and has its columns with their types and the rows that the manifest states.
    Schema,
    /// Rows are in the table's order.
    Order,
    /// No two rows of a table have one key.
    Key,
    /// Each reference leads to a row that exists, and views are nested up to a bound.
    Reference,
    /// Nothing ends before it begins.
    Life,
    /// Per launch: the samples of all instructions and the lost ones are those that were taken.
    SampleConservation,
    /// The kernel of a launch can execute the functions of its samples.
    Execution,
    /// Per launch: the rows' requests and lane accesses are those that the launch counts, and its summary counts all.
    AccessCount,
    /// A launch whose accesses stand in another names an earlier one of its kind.
    Model,
    /// Every content of a page has the hash that its row states, and a page's bytes.
    Content,
    /// The smallest and greatest values that a file states are those of its rows: queries skip rows by them.
    Statistics,
    /// Everything was checked.
    Unchecked,
}

impl CaptureRule {
    /// The rule's name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Hash => "hash",
            Self::Schema => "schema",
            Self::Order => "order",
            Self::Key => "key",
            Self::Reference => "reference",
            Self::Life => "lifetime",
            Self::SampleConservation => "sample conservation",
            Self::Execution => "execution",
            Self::AccessCount => "access count",
            Self::Model => "model launch",
            Self::Content => "content",
            Self::Statistics => "statistics",
            Self::Unchecked => "not checked",
        }
    }
}

/// Everything that is wrong with a capture. Empty where nothing is. `code` checks what needs the machine code, which this
/// crate does not read.
pub fn check_with(
    reader: &CaptureReader,
    code: impl FnOnce(&CaptureReader, &mut ViolationList),
) -> Vec<Violation> {
    let mut found = ViolationList::default();
    check_container(reader, &mut found);
    let mut is_readable = true;
    for table in tables::ALL {
        if reader.table_entry(table.name).is_ok() {
            if table::check(reader, table, &mut found) {
                statistics::check(reader, table, &mut found);
            } else {
                is_readable = false;
            }
        }
    }
    if !is_readable {
        // The rest takes tables for granted: the time that it takes would be without a bound.
        let what = || "references, samples and accesses were not checked".to_owned();
        found.add(CaptureRule::Unchecked, what);
        return found.finish();
    }
    reference::check(reader, &mut found);
    sample::check(reader, &mut found);
    code(reader, &mut found);
    access::check(reader, &mut found);
    summary::check(reader, &mut found);
    content::check(reader, &mut found);
    found.finish()
}

fn check_container(reader: &CaptureReader, found: &mut ViolationList) {
    let manifest = reader.manifest();
    let mut listed = BTreeMap::from([(entry::MANIFEST.to_owned(), None)]);
    listed.extend(manifest.entries().map(|(name, _, blake3)| (name, Some(blake3))));
    for name in reader.entry_names().filter(|name| !listed.contains_key(*name)) {
        found.add(CaptureRule::Container, || format!("entry `{name}` is not in the manifest"));
    }
    let holds = |table: &str| listed.contains_key(&entry::table(table));
    for table in tables::ALL.iter().filter(|table| tables::is_missing(table.name, holds)) {
        found.add(CaptureRule::Container, || format!("table `{}` is missing", table.name));
    }
    for (name, blake3) in listed.into_iter().filter_map(|(name, blake3)| Some((name, blake3?))) {
        match reader.entry_bytes(&name).and_then(EntryBytes::hash) {
            Ok(hash) => {
                if hash != blake3 {
                    let what = || format!("the hash of entry `{name}` differs from the manifest's");
                    found.add(CaptureRule::Hash, what);
                }
            }
            Err(error) => found.add(CaptureRule::Container, || error.to_string()),
        }
    }
    if manifest.capture_id != manifest.compute_capture_id() {
        found.add(CaptureRule::Hash, || "the capture's id is not that of its entries".to_owned());
    }
}

/// Violations while they are found.
#[derive(Debug, Default)]
pub struct ViolationList(BTreeMap<CaptureRule, (Vec<String>, usize)>);

impl ViolationList {
    /// Adds a violation. It is written only if it is among those that are shown.
    pub fn add(&mut self, rule: CaptureRule, what: impl FnOnce() -> String) {
        let (shown, count) = self.0.entry(rule).or_default();
        *count += 1;
        if shown.len() < SHOWN {
            shown.push(what());
        }
    }

    /// Violations of a rule so far.
    fn count(&self, rule: CaptureRule) -> usize {
        self.0.get(&rule).map_or(0, |(_, count)| *count)
    }

    /// Adds a table that cannot be read.
    pub fn unreadable(&mut self, error: &CaptureError) {
        self.add(CaptureRule::Schema, || error.to_string());
    }

    fn finish(self) -> Vec<Violation> {
        let listed = |(rule, (mut shown, count)): (CaptureRule, (Vec<String>, usize))| {
            if count > shown.len() {
                shown.push(format!("and {} more", count - shown.len()));
            }
            shown.into_iter().map(move |what| Violation { rule, what })
        };
        self.0.into_iter().flat_map(listed).collect()
    }
}
