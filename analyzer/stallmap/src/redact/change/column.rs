//! One column of a batch, changed.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow::datatypes::{Int64Type, UInt64Type};
use regex::Regex;
use stallmap_schema::capture::labels::RECORDED;
use stallmap_schema::cell::ColumnCell as _;
use stallmap_schema::hash;
use stallmap_schema::secrecy::ColumnSecrecy;
use stallmap_schema::table::{ColumnDef, TableDef};
use stallmap_schema::tables::replay::PAGE_BYTES;

use super::CaptureRedactor;
use crate::redact::identities::python_function;
use crate::redact::vocabulary::in_known_words;
use crate::redact::{AlsoRedact, KeptData};

/// Addresses of device memory are not below this one.
const SMALLEST_ADDRESS: u64 = 1 << 21;
/// Options of the recorder whose values are patterns of names.
const PATTERNS: [&str; 5] = ["kernels", "exclude", "region", "replay-kernels", "launches"];
/// The same within the settings of a run.
static PATTERN_IN_JSON: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"("(?:kernels|exclude|region|only)"\s*:\s*)(?:"(?:[^"\\]|\\.)*"|\[[^\]]*\])"#).ok()
});
/// Namespaces of operators that everybody has.
const PUBLIC_OPS: [&str; 14] = [
    "aten::",
    "prims::",
    "prim::",
    "c10d::",
    "_c10d_functional::",
    "autograd::",
    "torch::",
    "inductor::",
    "triton::",
    "quantized::",
    "cudnn::",
    "profiler::",
    "nvprims::",
    "fsdp::",
];

/// Numbers, changed one by one.
pub(super) fn numbers(array: &ArrayRef, change: impl Fn(u64) -> u64) -> ArrayRef {
    match array.as_primitive_opt::<UInt64Type>() {
        Some(values) => Arc::new(values.iter().map(|value| value.map(&change)).collect::<UInt64Array>()),
        None => Arc::clone(array),
    }
}

/// Times, moved.
pub(super) fn times(array: &ArrayRef, shift_ns: i64) -> ArrayRef {
    match array.as_primitive_opt::<Int64Type>() {
        Some(values) if shift_ns != 0 => Arc::new(
            values.iter().map(|value| value.map(|ns| ns.saturating_add(shift_ns))).collect::<Int64Array>(),
        ),
        _ => Arc::clone(array),
    }
}

/// True for the name of an operator that everybody has.
pub(super) fn is_public_op(name: &str) -> bool {
    PUBLIC_OPS.iter().any(|namespace| name.starts_with(namespace))
}

impl CaptureRedactor {
    pub(super) fn identities(&mut self, column: &str, array: &ArrayRef) -> ArrayRef {
        numbers(array, |old| match column {
            "frame_id" => self.identities.frame(old),
            "pystates_hash" => self.identities.stack(old, &self.words),
            _ => self.identities.function(old),
        })
    }

    pub(super) fn content_hash(&mut self, array: &ArrayRef) -> ArrayRef {
        if self.options.keep.contains(&KeptData::Contents) {
            return Arc::clone(array);
        }
        let zeros = hash::content_hash(&[0; PAGE_BYTES]);
        numbers(array, |_| zeros)
    }

    pub(super) fn blobs(&mut self, kind: ColumnSecrecy, array: &ArrayRef) -> ArrayRef {
        let Some(values) = array.as_binary_opt::<i32>() else { return Arc::clone(array) };
        let count =
            (0..values.len()).filter(|row| values.is_valid(*row) && !values.value(*row).is_empty()).count();
        let count = count as u64;
        let (what, keep) = match kind {
            ColumnSecrecy::Contents => {
                ("pages of memory, now zeros", self.options.keep.contains(&KeptData::Contents))
            }
            ColumnSecrecy::Parameters => {
                ("values passed to kernels, now zeros", self.options.keep.contains(&KeptData::Parameters))
            }
            _ => ("attributes of launches", false),
        };
        if keep {
            self.stays(
                if kind == ColumnSecrecy::Contents { "pages of memory" } else { "values passed to kernels" },
                count,
            );
        } else {
            self.gone(what, count);
        }
        if kind == ColumnSecrecy::Parameters {
            let moved = |bytes: &[u8]| self.parameters(bytes, keep);
            return Arc::new(values.iter().map(|bytes| bytes.map(moved)).collect::<BinaryArray>());
        }
        if keep {
            return Arc::clone(array);
        }
        let length = |bytes: &[u8]| if kind == ColumnSecrecy::Attributes { 0 } else { bytes.len() };
        Arc::new(
            values.iter().map(|bytes| bytes.map(|bytes| vec![0; length(bytes)])).collect::<BinaryArray>(),
        )
    }

    /// The parameters of a launch: addresses move like all others, because launches of a kind are compared by them.
    fn parameters(&self, bytes: &[u8], keep: bool) -> Vec<u8> {
        let word = |bytes: &[u8]| {
            let old = bytes.try_into().map_or(0, u64::from_le_bytes);
            // Small numbers are no addresses of device memory.
            let new = if old < SMALLEST_ADDRESS { 0 } else { self.rebase.map(old) };
            match (new, keep) {
                (0, true) => bytes.to_vec(),
                (0, false) => vec![0; bytes.len()],
                (new, _) => new.to_le_bytes().to_vec(),
            }
        };
        bytes.chunks(size_of::<u64>()).flat_map(word).collect()
    }

    /// Names of cubins' files. None if the cubin is omitted.
    pub(super) fn cubin_files(&mut self, array: &ArrayRef) -> ArrayRef {
        let texts = (0..array.len()).map(|row| String::read(array, row));
        let remaining = texts.map(|file| file.filter(|file| !self.unreadable.contains(file)));
        Arc::new(remaining.collect::<StringArray>())
    }

    pub(super) fn texts(
        &mut self,
        kind: ColumnSecrecy,
        table: &TableDef,
        column: &ColumnDef,
        array: &ArrayRef,
        batch: &RecordBatch,
    ) -> ArrayRef {
        if array.as_string_opt::<i32>().is_none() {
            // Enum values, and numbers.
            return Arc::clone(array);
        }
        let mut texts = Vec::with_capacity(array.len());
        for row in 0..array.len() {
            let text = String::read(array, row);
            texts.push(text.and_then(|text| self.text(kind, (table.name, column.name), &text, (batch, row))));
        }
        Arc::new(StringArray::from(texts))
    }

    /// One text. `None` if it is removed.
    fn text(
        &mut self,
        kind: ColumnSecrecy,
        location: (&str, &str),
        text: &str,
        row: (&RecordBatch, usize),
    ) -> Option<String> {
        let new = match (kind, location) {
            (ColumnSecrecy::Host, _) => self.words.host(text),
            (ColumnSecrecy::Path, (_, "working_directory")) => self.words.whole_folder(text),
            (ColumnSecrecy::Path, ("run_option", _)) => self.option(text, row),
            (ColumnSecrecy::Text, _) if self.has_names() => in_known_words(&self.words.scrub(text)),
            (ColumnSecrecy::Path, _) => {
                let path = self.words.path(text);
                self.words.named(&path)
            }
            (ColumnSecrecy::Arguments, _) if !self.options.keep.contains(&KeptData::Arguments) => {
                "[]".to_owned()
            }
            (ColumnSecrecy::Detail, _) if !self.options.keep.contains(&KeptData::Details) => {
                self.gone("details of losses and replays", 1);
                return None;
            }
            (ColumnSecrecy::Symbol, ("function", _)) => self.function(text, row),
            (ColumnSecrecy::Symbol, _) if self.has(AlsoRedact::Symbols) => self.symbol(location, text),
            (ColumnSecrecy::Name, _) if self.has(AlsoRedact::Names) => self.name(text),
            _ => self.words.scrub(text),
        };
        self.count(kind, text != new);
        Some(new)
    }

    fn count(&mut self, kind: ColumnSecrecy, is_changed: bool) {
        let what = match kind {
            ColumnSecrecy::Path => "paths: folders",
            ColumnSecrecy::Host => "hosts",
            ColumnSecrecy::Arguments => "arguments of programs",
            ColumnSecrecy::Symbol => "names of kernels, functions, ops and regions",
            ColumnSecrecy::Name => "names of modules and parameters of models",
            ColumnSecrecy::Detail => "details of losses and replays",
            _ => "other texts, with paths or names in them",
        };
        match (is_changed, kind) {
            (true, _) => self.gone(what, 1),
            (false, ColumnSecrecy::Symbol | ColumnSecrecy::Name | ColumnSecrecy::Detail) => {
                self.stays(what, 1);
            }
            (false, ColumnSecrecy::Path) => self.stays("paths without folders, or of public packages", 1),
            _ => {}
        }
    }

    /// The value of an option of the recording: a path, or a text with paths. Patterns repeat names, or parts of them.
    fn option(&mut self, text: &str, (batch, row): (&RecordBatch, usize)) -> String {
        let name =
            batch.column_by_name("name").and_then(|names| String::read(names, row)).unwrap_or_default();
        if name.starts_with(RECORDED) {
            self.gone("labels of the capture", 1);
            return String::new();
        }
        let mut text = Cow::Borrowed(text);
        if self.has_names() {
            if PATTERNS.contains(&name.as_str()) {
                return self.words.symbol(&text);
            }
            if let Some(regex) = PATTERN_IN_JSON.as_ref().filter(|_| text.starts_with('{')) {
                text = Cow::Owned(regex.replace_all(&text, "$1\"-\"").into_owned());
            }
        }
        let is_plain = || !text.contains(|c: char| c.is_whitespace() || "{}[]\"".contains(c));
        let has_root = text.starts_with(['/', '~', '.', '\\'])
            || text.get(1..).is_some_and(|rest| rest.starts_with(":\\"));
        if has_root || text.contains(['/', '\\']) && is_plain() {
            let path = self.words.path(&text);
            return self.words.named(&path);
        }
        let scrubbed = self.words.scrub(&text);
        let named = self.words.named(&scrubbed);
        if self.has_names() { in_known_words(&named) } else { named }
    }

    /// True if names of code or of the model go: any text may repeat them.
    fn has_names(&self) -> bool {
        self.has(AlsoRedact::Symbols) || self.has(AlsoRedact::Names)
    }

    /// The name of a function: as its cubin has it now.
    fn function(&mut self, text: &str, (batch, row): (&RecordBatch, usize)) -> String {
        let id = batch.column_by_name("function_id").and_then(|ids| u64::read(ids, row));
        match id.and_then(|id| self.identities.function_name(id)) {
            Some(name) => name.to_owned(),
            None => self.words.scrub(text),
        }
    }

    fn symbol(&mut self, (table, _): (&str, &str), text: &str) -> String {
        match table {
            _ if table == "python_frame" => python_function(text, &self.words),
            _ if is_public_op(text) => text.to_owned(),
            "bundle_symbol" => crate::redact::cubin::alias(text, &self.words),
            _ => self.words.symbol(text),
        }
    }

    /// A dotted name: its numbers stay.
    fn name(&mut self, text: &str) -> String {
        self.words.part_names(text)
    }
}
