//! Records of an array. Behind one that is not JSON, reading goes on at the next one.

use std::io::Read;

use crate::error::{ReadError, ReadResult};

use super::bytes::{LOOK_AHEAD_BYTES, is_space};
use super::{JsonKind, JsonStream, trimmed, unreadable};

impl<R: Read> JsonStream<R> {
    /// Visits the elements of an array of records. One that is not JSON is left out, and counts as a damage.
    pub fn records(&mut self, mut visit: impl FnMut(&mut Self) -> ReadResult<()>) -> ReadResult<()> {
        if self.kind()? != JsonKind::Array {
            return self.skip();
        }
        self.open()?;
        let level = self.level;
        let (mut is_first, mut first_name) = (true, None);
        loop {
            let mut next = || {
                let has_element = self.has_element(is_first)?;
                if has_element {
                    first_name = first_name.take().or(self.first_name()?);
                    visit(self)?;
                }
                Ok(has_element)
            };
            let result = next();
            is_first = false;
            match result {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(failure) => {
                    is_first = self.resume(first_name.as_deref(), failure)?;
                    self.level = level;
                }
            }
        }
    }

    /// Moves behind a record that is not JSON: to the next one, or to the end of the records.
    fn resume(&mut self, first_name: Option<&[u8]>, failure: ReadError) -> ReadResult<bool> {
        let Some((name, (position, _))) = first_name.zip(self.broken.clone()) else { return Err(failure) };
        let mut before = 0;
        loop {
            let path = &self.path;
            let seen = self.bytes.ahead(LOOK_AHEAD_BYTES).map_err(|error| unreadable(path, error))?;
            let Some(byte) = seen.first().copied() else { return Err(failure) };
            let is_end = byte == b']' && before == b'}' && is_end_of_records(&seen[1..]);
            if is_end || byte == b'{' && begins_with(seen, name) {
                self.broken = None;
                self.damage.add("records that are not JSON", position);
                return Ok(true);
            }
            before = if is_space(byte) { before } else { byte };
            self.bytes.skip(1);
        }
    }

    /// The first name of the next object, without moving there.
    fn first_name(&mut self) -> ReadResult<Option<Vec<u8>>> {
        let seen = self.bytes.ahead(LOOK_AHEAD_BYTES).map_err(|error| unreadable(&self.path, error))?;
        let name = seen.strip_prefix(b"{").map(trimmed).and_then(|rest| rest.strip_prefix(b"\""));
        Ok(name.and_then(|name| Some(name.split_at(name.iter().position(|byte| *byte == b'"')?).0.to_vec())))
    }
}

/// True if bytes are the begin of an object with this first name.
fn begins_with(bytes: &[u8], name: &[u8]) -> bool {
    let name = |rest: &[u8]| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"\""));
    bytes.strip_prefix(b"{").map(trimmed).and_then(|rest| rest.strip_prefix(b"\"")).is_some_and(name)
}

/// True if bytes can stand behind the records: another member, or the end of the file.
fn is_end_of_records(bytes: &[u8]) -> bool {
    match trimmed(bytes) {
        [b',', rest @ ..] => trimmed(rest).starts_with(b"\""),
        [b'}', rest @ ..] => trimmed(rest).is_empty(),
        rest => rest.is_empty(),
    }
}
