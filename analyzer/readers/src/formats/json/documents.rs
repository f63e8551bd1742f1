//! Documents of a file. One that ends before its end is a damage, and so is what stands behind the last one.

use std::io::Read;

use crate::error::ReadResult;

use super::{JsonStream, unreadable};

impl<R: Read> JsonStream<R> {
    /// Visits the document of a file. Where it ends before its end, that is a damage.
    pub fn document(&mut self, visit: impl FnOnce(&mut Self) -> ReadResult<()>) -> ReadResult<()> {
        self.part(visit)?;
        self.rest()
    }

    /// Visits the documents of a file, which stand one behind another.
    pub fn documents(&mut self, mut visit: impl FnMut(&mut Self) -> ReadResult<()>) -> ReadResult<()> {
        loop {
            self.part(&mut visit)?;
            self.spaces()?;
            if self.broken.is_some() || !matches!(self.peek()?, Some(b'{' | b'[')) {
                return self.rest();
            }
        }
    }

    fn part(&mut self, visit: impl FnOnce(&mut Self) -> ReadResult<()>) -> ReadResult<()> {
        let result = visit(self);
        let Some((position, reason)) = self.broken.clone().filter(|_| result.is_err()) else { return result };
        let first = format!("byte {position}: {reason}");
        self.damage.add_many("the rest of the file, which is not JSON", 1, first);
        Ok(())
    }

    /// Counts the bytes behind the document.
    fn rest(&mut self) -> ReadResult<()> {
        if self.broken.is_some() {
            return Ok(());
        }
        self.spaces()?;
        let (position, mut count) = (self.bytes.position(), 0);
        loop {
            let seen = self.bytes.ahead(1).map(<[u8]>::len);
            let seen = seen.map_err(|error| unreadable(&self.path, error))?;
            if seen == 0 {
                break;
            }
            count += seen as u64;
            self.bytes.skip(seen);
        }
        self.damage.add_many("bytes behind the end of the JSON", count, format!("byte {position}"));
        if let Some(failure) = self.bytes.failure() {
            let first = format!("byte {}: {failure}", self.bytes.position());
            self.damage.add_many("the rest of the file, which cannot be unpacked", 1, first);
        }
        Ok(())
    }
}
