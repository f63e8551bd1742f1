//! JSON as a stream: one value at a time, in a bounded memory.
//!
//! Profilers write JSON that is not quite JSON: infinite numbers, names with quotes and backslashes, commas without a
//! value, files without an end. What can be read is read. Everything else is a [`JsonDamage`] with its position.

mod bytes;
mod damage;
mod documents;
mod records;
mod text;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{ReadError, ReadResult};

use self::bytes::{ByteStream, LOOK_AHEAD_BYTES, is_space};
pub use self::damage::JsonDamage;
use crate::formats::decimal::integer;

/// Levels of arrays and objects.
const MAX_LEVELS: u32 = 128;
/// Bytes of one text. Names of kernels are the longest, with some ten thousand.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Bytes of a number, or of a word.
const MAX_WORD_BYTES: usize = 512;

/// A stream of JSON from a file.
pub struct JsonStream<R: Read> {
    bytes: ByteStream<R>,
    path: PathBuf,
    levels: u32,
    level: u32,
    damage: JsonDamage,
    /// The position where the JSON ends before its end, and the reason.
    broken: Option<(u64, String)>,
    /// The bytes of the last text.
    raw: Vec<u8>,
}

/// Kinds of values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonKind {
    Object,
    Array,
    Text,
    /// A number, a truth value, null, or something else that JSON lacks.
    Word,
}

/// Parts of an object that a text can be. Programs write names of their own, and values of others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonRole {
    Name,
    Value,
}

impl<R: Read> JsonStream<R> {
    /// A stream of a file. Nesting has up to 128 levels.
    pub fn new(reader: R, path: &Path) -> Self {
        Self::nested(reader, path, MAX_LEVELS)
    }

    /// A stream of a file whose nesting has up to a number of levels.
    pub fn nested(reader: R, path: &Path, levels: u32) -> Self {
        Self {
            bytes: ByteStream::new(reader),
            path: path.to_owned(),
            levels,
            level: 0,
            damage: JsonDamage::default(),
            broken: None,
            raw: Vec::new(),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Content that is not JSON.
    pub fn damage(&self) -> &JsonDamage {
        &self.damage
    }

    /// The failure of JSON that ends before its end.
    pub fn failure(&self) -> Option<ReadError> {
        let (position, reason) = self.broken.as_ref()?;
        let path = self.path.display();
        let message = format!("`{path}` is not complete JSON: {reason} at byte {position}");
        Some(ReadError::message(message).hint("the tool may not have finished it: write it again".to_owned()))
    }

    /// The first of some keys of the outermost object, or of the first object of an outermost array.
    pub fn first_key(&mut self, known: &[&str]) -> ReadResult<Option<String>> {
        if self.kind()? == JsonKind::Array {
            self.open()?;
            if !self.has_element(true)? {
                return Ok(None);
            }
        }
        if self.kind()? != JsonKind::Object {
            return Ok(None);
        }
        self.open()?;
        let (mut name, mut is_first) = (String::new(), true);
        while self.name(&mut name, is_first)? {
            is_first = false;
            if known.contains(&name.as_str()) {
                return Ok(Some(name));
            }
            self.skip()?;
        }
        Ok(None)
    }

    /// True if the next value is an array.
    pub fn is_array(&mut self) -> ReadResult<bool> {
        Ok(self.kind()? == JsonKind::Array)
    }

    /// True if the next value is an object.
    pub fn is_object(&mut self) -> ReadResult<bool> {
        Ok(self.kind()? == JsonKind::Object)
    }

    /// Visits the members of an object. The visitor reads or skips each value. Any other value is skipped.
    pub fn object(&mut self, mut visit: impl FnMut(&mut Self, &str) -> ReadResult<()>) -> ReadResult<()> {
        if self.kind()? != JsonKind::Object {
            return self.skip();
        }
        self.open()?;
        let (mut name, mut is_first) = (String::new(), true);
        while self.name(&mut name, is_first)? {
            is_first = false;
            visit(self, &name)?;
        }
        Ok(())
    }

    /// Visits the elements of an array. Any other value is skipped.
    pub fn array(&mut self, mut visit: impl FnMut(&mut Self) -> ReadResult<()>) -> ReadResult<()> {
        if self.kind()? != JsonKind::Array {
            return self.skip();
        }
        self.open()?;
        let mut is_first = true;
        while self.has_element(is_first)? {
            is_first = false;
            visit(self)?;
        }
        Ok(())
    }

    /// A text, a number as it is written, or a truth value. None for null, arrays and objects.
    pub fn scalar(&mut self) -> ReadResult<Option<String>> {
        match self.kind()? {
            JsonKind::Text => self.string().map(Some),
            JsonKind::Word => self.word(),
            JsonKind::Array | JsonKind::Object => self.skip().map(|()| None),
        }
    }

    /// A text. None for everything else, which is skipped.
    pub fn text(&mut self) -> ReadResult<Option<String>> {
        if self.kind()? == JsonKind::Text { self.scalar() } else { self.skip().map(|()| None) }
    }

    /// An integer. None for everything else.
    pub fn integer(&mut self) -> ReadResult<Option<i64>> {
        Ok(self.scalar()?.and_then(|text| integer(&text)))
    }

    /// The integers of an array. Other elements are left out.
    pub fn integers(&mut self) -> ReadResult<Vec<i64>> {
        let mut values = Vec::new();
        self.array(|json| {
            values.extend(json.integer()?);
            Ok(())
        })?;
        Ok(values)
    }

    /// Three positive sizes. None for everything else.
    pub fn extent(&mut self) -> ReadResult<Option<[u32; 3]>> {
        let sizes = self.integers()?.into_iter().map(u32::try_from).collect::<Result<Vec<u32>, _>>();
        let sizes = sizes.ok().and_then(|sizes| <[u32; 3]>::try_from(sizes).ok());
        Ok(sizes.filter(|sizes| sizes.iter().all(|size| *size > 0)))
    }

    /// The end of the document: nothing but spaces is left. Returns its damages.
    pub fn end(mut self) -> ReadResult<JsonDamage> {
        self.spaces()?;
        if self.peek()?.is_some() {
            return Err(self.break_off("there is more behind its end"));
        }
        Ok(self.damage)
    }

    /// Skips a value.
    pub fn skip(&mut self) -> ReadResult<()> {
        match self.kind()? {
            JsonKind::Object => self.object(|json, _| json.skip()),
            JsonKind::Array => self.array(Self::skip),
            JsonKind::Text => self.raw(JsonRole::Value),
            JsonKind::Word => self.word().map(drop),
        }
    }

    fn kind(&mut self) -> ReadResult<JsonKind> {
        self.spaces()?;
        match self.peek()? {
            Some(b'{') => Ok(JsonKind::Object),
            Some(b'[') => Ok(JsonKind::Array),
            Some(b'"') => Ok(JsonKind::Text),
            Some(byte) if is_word(byte) => Ok(JsonKind::Word),
            _ => Err(self.break_off("no value begins")),
        }
    }

    /// Enters an object or an array.
    fn open(&mut self) -> ReadResult<()> {
        self.bytes.skip(1);
        self.level += 1;
        if self.level > self.levels {
            let message = format!(
                "`{}` has more than {} levels of JSON at byte {}",
                self.path.display(),
                self.levels,
                self.bytes.position()
            );
            return Err(ReadError::message(message));
        }
        Ok(())
    }

    /// Reads the name of the next member, into the memory of the last one. False at the end of the object.
    fn name(&mut self, name: &mut String, is_first: bool) -> ReadResult<bool> {
        if !self.has_next(b'}', is_first)? {
            return Ok(false);
        }
        if self.peek()? != Some(b'"') {
            return Err(self.break_off("no name begins"));
        }
        let position = self.bytes.position();
        self.raw(JsonRole::Name)?;
        name.clear();
        name.push_str(&text::text(&self.raw, &mut self.damage, position));
        self.spaces()?;
        if self.peek()? != Some(b':') {
            return Err(self.break_off("a name has no value"));
        }
        self.bytes.skip(1);
        Ok(true)
    }

    /// True in front of another element. Leaves the array at its end.
    fn has_element(&mut self, is_first: bool) -> ReadResult<bool> {
        self.has_next(b']', is_first)
    }

    /// True behind a comma. A comma without a value is a damage.
    fn has_next(&mut self, end: u8, is_first: bool) -> ReadResult<bool> {
        let mut commas = 0;
        loop {
            self.spaces()?;
            match self.peek()? {
                Some(b',') => {
                    commas += 1;
                    if commas > u32::from(!is_first) {
                        self.damage.add("commas without a value", self.bytes.position());
                    }
                    self.bytes.skip(1);
                }
                Some(byte) if byte == end => {
                    // Several commas count already.
                    if commas == 1 && !is_first {
                        self.damage.add("commas without a value", self.bytes.position());
                    }
                    self.bytes.skip(1);
                    self.level = self.level.saturating_sub(1);
                    return Ok(false);
                }
                Some(_) if is_first || commas > 0 => return Ok(true),
                _ => return Err(self.break_off("a value has no end")),
            }
        }
    }

    fn string(&mut self) -> ReadResult<String> {
        let position = self.bytes.position();
        self.raw(JsonRole::Value)?;
        Ok(text::text(&self.raw, &mut self.damage, position).into_owned())
    }

    /// Reads the bytes between quotes. A quote that nothing of JSON follows belongs to the text.
    fn raw(&mut self, role: JsonRole) -> ReadResult<()> {
        let position = self.bytes.position();
        self.bytes.skip(1);
        self.raw.clear();
        loop {
            let seen = self.bytes.ahead(1).map_err(|error| unreadable(&self.path, error))?;
            let plain = seen.iter().take_while(|byte| !matches!(byte, b'"' | b'\\')).count();
            self.raw.extend_from_slice(&seen[..plain]);
            self.bytes.skip(plain);
            if self.raw.len() > MAX_TEXT_BYTES {
                let message =
                    format!("`{}`: a text has more than 1 MiB at byte {position}", self.path.display());
                return Err(ReadError::message(message));
            }
            match self.take()? {
                Some(b'\\') => {
                    self.raw.push(b'\\');
                    let escaped = self.take()?;
                    self.raw.extend(escaped);
                }
                Some(b'"') if self.is_end_of_text(role)? => return Ok(()),
                Some(b'"') => {
                    self.damage.add("quotes in texts that are not escaped", position);
                    self.raw.push(b'"');
                }
                // The first byte behind those that were held.
                Some(byte) => self.raw.push(byte),
                None => return Err(self.break_off("it ends in a text")),
            }
        }
    }

    /// True if the character behind a quote can stand behind a text.
    fn is_end_of_text(&mut self, role: JsonRole) -> ReadResult<bool> {
        if role == JsonRole::Name {
            return Ok(true);
        }
        let seen = self.bytes.ahead(1).map_err(|error| unreadable(&self.path, error))?;
        let mut next = seen.first().copied();
        if next.is_none_or(is_space) {
            let seen = self.bytes.ahead(LOOK_AHEAD_BYTES).map_err(|error| unreadable(&self.path, error))?;
            next = trimmed(seen).first().copied();
        }
        Ok(matches!(next, None | Some(b',' | b'}' | b']')))
    }

    /// A number as it is written, or a truth value. Null is none, and so are words that JSON lacks.
    fn word(&mut self) -> ReadResult<Option<String>> {
        let position = self.bytes.position();
        let seen = self.bytes.ahead(LOOK_AHEAD_BYTES).map_err(|error| unreadable(&self.path, error))?;
        let length = seen.iter().take_while(|byte| is_word(**byte)).count();
        let word = String::from_utf8_lossy(&seen[..length.min(MAX_WORD_BYTES)]).into_owned();
        self.bytes.skip(length);
        if length > MAX_WORD_BYTES {
            return Err(self.break_off("a number has too many digits"));
        }
        match word.as_str() {
            "null" => Ok(None),
            "true" | "false" => Ok(Some(word)),
            _ if is_number(&word) => Ok(Some(word)),
            _ => {
                self.damage.add_many("values that JSON lacks", 1, format!("byte {position}: {word}"));
                Ok(None)
            }
        }
    }

    fn spaces(&mut self) -> ReadResult<()> {
        self.bytes.skip_spaces().map_err(|error| unreadable(&self.path, error))
    }

    fn peek(&mut self) -> ReadResult<Option<u8>> {
        self.bytes.peek().map_err(|error| unreadable(&self.path, error))
    }

    fn take(&mut self) -> ReadResult<Option<u8>> {
        self.bytes.take().map_err(|error| unreadable(&self.path, error))
    }

    /// Notes that the JSON ends here.
    fn break_off(&mut self, reason: &str) -> ReadError {
        let position = self.bytes.position();
        let is_end = matches!(self.bytes.ahead(1), Ok([]));
        let reason = match self.bytes.failure().filter(|_| is_end) {
            Some(failure) => failure,
            None if is_end => "it ends too early",
            None => reason,
        };
        self.broken = Some((position, reason.to_owned()));
        self.failure().unwrap_or_else(|| ReadError::message(reason))
    }
}

/// True for bytes of numbers and words.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'#' | b'(' | b')')
}

fn is_number(word: &str) -> bool {
    let (mantissa, exponent) = word.split_once(['e', 'E']).unwrap_or((word, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole) && digits(fraction) && digits(exponent)
}

/// The bytes from the first one that is not a space.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let spaces = bytes.iter().take_while(|byte| is_space(**byte)).count();
    &bytes[spaces..]
}

fn unreadable(path: &Path, error: io::Error) -> ReadError {
    ReadError::io(error, format!("read `{}`", path.display()))
}

#[cfg(test)]
mod tests;
