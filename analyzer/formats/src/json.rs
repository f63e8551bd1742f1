//! JSON as a stream: one value at a time, with the position in errors.

use std::io::Read;
use std::path::{Path, PathBuf};

use stallmap_console::exit::{Failure, IO, Outcome};
use struson::reader::{JsonReader as _, JsonStreamReader, ReaderError, ReaderSettings, ValueType};

use crate::decimal::integer;

/// A stream of JSON from a file.
pub struct Json<R: Read> {
    reader: JsonStreamReader<R>,
    path: PathBuf,
}

impl<R: Read> Json<R> {
    /// A stream of a file. Nesting has up to 128 levels.
    pub fn new(reader: R, path: &Path) -> Self {
        Self { reader: JsonStreamReader::new(reader), path: path.to_owned() }
    }

    /// A stream of a file whose nesting has up to a number of levels.
    pub fn nested(reader: R, path: &Path, levels: u32) -> Self {
        let settings = ReaderSettings { max_nesting_depth: Some(levels), ..ReaderSettings::default() };
        Self { reader: JsonStreamReader::new_custom(reader, settings), path: path.to_owned() }
    }

    /// The first of some keys of the outermost object, or of the first object of an outermost array.
    pub fn first_key(&mut self, known: &[&str]) -> Outcome<Option<String>> {
        if self.peek()? == ValueType::Array {
            self.reader.begin_array().map_err(|error| self.failure(&error))?;
            if !self.has_next()? {
                return Ok(None);
            }
        }
        if self.peek()? != ValueType::Object {
            return Ok(None);
        }
        self.reader.begin_object().map_err(|error| self.failure(&error))?;
        while self.has_next()? {
            let name = self.reader.next_name_owned().map_err(|error| self.failure(&error))?;
            if known.contains(&name.as_str()) {
                return Ok(Some(name));
            }
            self.skip()?;
        }
        Ok(None)
    }

    /// True if the next value is an array.
    pub fn is_array(&mut self) -> Outcome<bool> {
        Ok(self.peek()? == ValueType::Array)
    }

    /// Visits the members of an object. The visitor reads or skips each value. Any other value is skipped.
    pub fn object(&mut self, mut visit: impl FnMut(&mut Self, &str) -> Outcome<()>) -> Outcome<()> {
        if self.peek()? != ValueType::Object {
            return self.skip();
        }
        self.reader.begin_object().map_err(|error| self.failure(&error))?;
        while self.has_next()? {
            let name = self.reader.next_name_owned().map_err(|error| self.failure(&error))?;
            visit(self, &name)?;
        }
        self.reader.end_object().map_err(|error| self.failure(&error))
    }

    /// Visits the elements of an array. Any other value is skipped.
    pub fn array(&mut self, mut visit: impl FnMut(&mut Self) -> Outcome<()>) -> Outcome<()> {
        if self.peek()? != ValueType::Array {
            return self.skip();
        }
        self.reader.begin_array().map_err(|error| self.failure(&error))?;
        while self.has_next()? {
            visit(self)?;
        }
        self.reader.end_array().map_err(|error| self.failure(&error))
    }

    /// A text, a number as it is written, or a truth value. None for null, arrays and objects.
    pub fn scalar(&mut self) -> Outcome<Option<String>> {
        let value = match self.peek()? {
            ValueType::String => self.reader.next_string(),
            ValueType::Number => self.reader.next_number_as_string(),
            ValueType::Boolean => self.reader.next_bool().map(|value| value.to_string()),
            ValueType::Null | ValueType::Array | ValueType::Object => return self.skip().map(|()| None),
        };
        value.map(Some).map_err(|error| self.failure(&error))
    }

    /// A text. None for everything else, which is skipped.
    pub fn text(&mut self) -> Outcome<Option<String>> {
        if self.peek()? == ValueType::String { self.scalar() } else { self.skip().map(|()| None) }
    }

    /// An integer. None for everything else.
    pub fn integer(&mut self) -> Outcome<Option<i64>> {
        Ok(self.scalar()?.and_then(|text| integer(&text)))
    }

    /// The integers of an array. Other elements are left out.
    pub fn integers(&mut self) -> Outcome<Vec<i64>> {
        let mut values = Vec::new();
        self.array(|json| {
            values.extend(json.integer()?);
            Ok(())
        })?;
        Ok(values)
    }

    /// Three positive sizes. None for everything else.
    pub fn extent(&mut self) -> Outcome<Option<[u32; 3]>> {
        let sizes = self.integers()?.into_iter().map(u32::try_from).collect::<Result<Vec<u32>, _>>();
        let sizes = sizes.ok().and_then(|sizes| <[u32; 3]>::try_from(sizes).ok());
        Ok(sizes.filter(|sizes| sizes.iter().all(|size| *size > 0)))
    }

    /// The end of the document: nothing but spaces is left.
    pub fn end(self) -> Outcome<()> {
        let path = self.path;
        self.reader.consume_trailing_whitespace().map_err(|error| failure(&path, &error))
    }

    /// Skips a value.
    pub fn skip(&mut self) -> Outcome<()> {
        self.reader.skip_value().map_err(|error| self.failure(&error))
    }

    fn peek(&mut self) -> Outcome<ValueType> {
        self.reader.peek().map_err(|error| self.failure(&error))
    }

    fn has_next(&mut self) -> Outcome<bool> {
        self.reader.has_next().map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &ReaderError) -> Failure {
        failure(&self.path, error)
    }
}

fn failure(path: &Path, error: &ReaderError) -> Failure {
    let message = format!("`{}` is not complete JSON: {error}", path.display());
    Failure::message(IO, message).hint("the tool may not have finished it: write it again".to_owned())
}
