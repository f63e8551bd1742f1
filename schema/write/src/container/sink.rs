//! A file that several threads write: one thread alone copies a gigabyte in a second.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, Scope};

/// Bytes that a thread writes at once.
const PIECE_BYTES: usize = 2 << 20;
/// Threads that write. More of them wait for each other.
const THREADS: usize = 4;

/// Bytes and their offset in the file.
type FileBytes = (u64, Vec<u8>);

/// The end of a file that is written by others.
pub(super) struct ContainerSink<'f> {
    file: &'f File,
    /// Bytes that no thread has yet, and where they begin.
    waiting: Vec<u8>,
    begin: u64,
    /// The end of all bytes.
    end: u64,
    threads: Option<SyncSender<FileBytes>>,
    left: Arc<UnwrittenBytes>,
}

/// Pieces that are not written yet, and the first error.
#[derive(Default)]
struct UnwrittenBytes {
    state: Mutex<(usize, Option<io::Error>)>,
    changed: Condvar,
}

impl<'f> ContainerSink<'f> {
    /// An empty file, and threads that write it. Where the system starts none, this thread writes.
    pub(super) fn new<'s>(file: &'f File, scope: &'s Scope<'s, '_>) -> Self
    where
        'f: 's,
    {
        let (send, pieces) = sync_channel(THREADS);
        let (pieces, left) = (Arc::new(Mutex::new(pieces)), Arc::new(UnwrittenBytes::default()));
        let mut begun = 0;
        for _ in 0..THREADS {
            let (pieces, left) = (Arc::clone(&pieces), Arc::clone(&left));
            let write = move || {
                while let Some(piece) = next(&pieces) {
                    left.end(file.write_all_at(&piece.1, piece.0));
                }
            };
            begun += usize::from(Builder::new().spawn_scoped(scope, write).is_ok());
        }
        let threads = (begun > 0).then_some(send);
        Self { file, waiting: Vec::new(), begin: 0, end: 0, threads, left }
    }

    fn send(&mut self) -> io::Result<()> {
        let bytes = std::mem::replace(&mut self.waiting, Vec::with_capacity(PIECE_BYTES));
        let begin = self.begin;
        self.begin += bytes.len() as u64;
        self.end = self.end.max(self.begin);
        if bytes.is_empty() {
            return Ok(());
        }
        let Some(threads) = &self.threads else { return self.file.write_all_at(&bytes, begin) };
        self.left.begin();
        threads.send((begin, bytes)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

fn next(pieces: &Mutex<Receiver<FileBytes>>) -> Option<FileBytes> {
    pieces.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

impl UnwrittenBytes {
    fn begin(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
    }

    fn end(&self, written: io::Result<()>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 -= 1;
        if let Err(error) = written {
            state.1.get_or_insert(error);
        }
        self.changed.notify_all();
    }

    /// Waits until all is written.
    fn wait(&self) -> io::Result<()> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.changed.wait_while(state, |state| state.0 > 0);
        done.unwrap_or_else(PoisonError::into_inner).1.take().map_or(Ok(()), Err)
    }
}

impl Write for ContainerSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    /// Waits until all is written.
    fn flush(&mut self) -> io::Result<()> {
        self.send()?;
        self.left.wait()
    }
}

impl Seek for ContainerSink<'_> {
    /// Bytes are written over others after those.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = self.begin + self.waiting.len() as u64;
        let end = self.end.max(position);
        let target = match to {
            SeekFrom::Start(target) => Some(target),
            SeekFrom::Current(distance) => position.checked_add_signed(distance),
            SeekFrom::End(distance) => end.checked_add_signed(distance),
        };
        let target = target.ok_or(io::ErrorKind::InvalidInput)?;
        if target != position {
            self.flush()?;
            self.begin = target;
        }
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn bytes_are_where_they_were_written() {
        let path = std::env::temp_dir().join(format!("stallmap-sink-{}", std::process::id()));
        let mut file =
            File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        let mut expected: Vec<u8> = (0..=250).cycle().take(3 * PIECE_BYTES + 5).collect();
        std::thread::scope(|scope| {
            let mut sink = ContainerSink::new(&file, scope);
            expected.chunks(PIECE_BYTES / 3 + 1).for_each(|bytes| sink.write_all(bytes).unwrap());
            assert_eq!(sink.seek(SeekFrom::Start(7)).unwrap(), 7);
            sink.write_all(b"header").unwrap();
            assert_eq!(sink.seek(SeekFrom::End(0)).unwrap(), expected.len() as u64);
            sink.write_all(b"end").unwrap();
            sink.flush().unwrap();
        });
        expected[7..13].copy_from_slice(b"header");
        expected.extend(b"end");
        let mut written = Vec::new();
        file.read_to_end(&mut written).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(written == expected);
    }
}
