//! Rows of a report's tables, of either form: integers, texts and nulls.

/// A value. Other types are null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SqlCell {
    /// Nothing, or a value that is not read.
    Null,
    /// An integer.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(String),
}

/// A row: its values in the order of the columns that were requested.
#[derive(Clone, Debug, Default)]
pub(crate) struct SqlRow(pub(crate) Vec<SqlCell>);

impl SqlRow {
    /// An integer.
    pub(crate) fn integer(&self, column: usize) -> Option<i64> {
        match self.0.get(column) {
            Some(SqlCell::Integer(value)) => Some(*value),
            _ => None,
        }
    }

    /// An integer that fits.
    pub(crate) fn number<T: TryFrom<i64>>(&self, column: usize) -> Option<T> {
        self.integer(column).and_then(|value| T::try_from(value).ok())
    }

    /// Three sizes in columns that follow each other. None with one that is no size.
    pub(crate) fn extent(&self, first: usize) -> Option<[u32; 3]> {
        let size = |axis: usize| self.number::<u32>(first + axis).filter(|size| *size > 0);
        Some([size(0)?, size(1)?, size(2)?])
    }

    /// A number, integers too.
    pub(crate) fn real(&self, column: usize) -> Option<f64> {
        match self.0.get(column) {
            Some(SqlCell::Real(value)) => Some(*value),
            Some(SqlCell::Integer(value)) => Some(*value as f64),
            _ => None,
        }
    }

    /// A text.
    pub(crate) fn text(&self, column: usize) -> Option<&str> {
        match self.0.get(column) {
            Some(SqlCell::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// The table of a name, or of that name with the largest version, as in `_V2`.
pub(crate) fn latest(names: impl Iterator<Item = String>, base: &str) -> Option<String> {
    names.filter_map(|name| Some((version(&name, base)?, name))).max().map(|(_, name)| name)
}

/// True for a table of a name, of any version.
pub(super) fn is_version(name: &str, base: &str) -> bool {
    version(name, base).is_some()
}

fn version(name: &str, base: &str) -> Option<u32> {
    match name.strip_prefix(base)? {
        "" => Some(0),
        rest => rest.strip_prefix("_V")?.parse().ok(),
    }
}
