//! Contents of pages, each recorded once in a process, up to a budget.

use std::collections::HashMap;

use stallmap_schema::tables::replay::PAGE_BYTES;

use super::{PAGE_BYTES_U64, PageBytes};

/// Bytes of contents that go to the writer in one piece.
const FRAME_BYTES: usize = 4 << 20;

/// Contents that were recorded.
pub struct RecordedContents {
    known: HashMap<[u8; 16], u64>,
    budget_pages: u64,
    /// New contents that wait to become a frame.
    frame: Vec<u8>,
    /// The content_id of the frame's first.
    frame_first: u64,
}

/// A content that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedContent {
    /// Its content_id, from 1.
    pub content_id: u64,
    /// True if no earlier page had it.
    pub is_new: bool,
}

/// The budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSpent;

impl RecordedContents {
    /// None yet. The limit is so many bytes, before compression.
    pub fn new(budget_bytes: u64) -> Self {
        let budget_pages = budget_bytes / PAGE_BYTES_U64;
        Self { known: HashMap::new(), budget_pages, frame: Vec::new(), frame_first: 1 }
    }

    /// Records a page's content. Frames that are full go to `emit`.
    pub fn add(
        &mut self,
        page: &PageBytes,
        emit: impl FnOnce(u64, Vec<u8>),
    ) -> Result<RecordedContent, BudgetSpent> {
        let hash = blake3::hash(page);
        let Some(&key) = hash.as_bytes().first_chunk::<16>() else { return Err(BudgetSpent) };
        if let Some(&content_id) = self.known.get(&key) {
            return Ok(RecordedContent { content_id, is_new: false });
        }
        let count = self.known.len() as u64;
        if count >= self.budget_pages {
            return Err(BudgetSpent);
        }
        self.known.insert(key, count + 1);
        self.frame.extend_from_slice(page);
        if self.frame.len() >= FRAME_BYTES {
            self.flush(emit);
        }
        Ok(RecordedContent { content_id: count + 1, is_new: true })
    }

    /// Passes waiting frames to `emit`.
    pub fn flush(&mut self, emit: impl FnOnce(u64, Vec<u8>)) {
        if !self.frame.is_empty() {
            let first = self.frame_first;
            self.frame_first += (self.frame.len() / PAGE_BYTES) as u64;
            emit(first, std::mem::take(&mut self.frame));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u32) -> PageBytes {
        let mut page = [0; PAGE_BYTES];
        page[..4].copy_from_slice(&number.to_le_bytes());
        page
    }

    #[test]
    fn each_content_is_recorded_once_and_in_order() {
        let mut contents = RecordedContents::new(1 << 30);
        let mut frames = Vec::new();
        for number in (0..3000_u32).chain(0..10) {
            let stored = contents.add(&page(number), |first, bytes| frames.push((first, bytes))).unwrap();
            assert_eq!(stored.content_id, u64::from(number) + 1);
        }
        contents.flush(|first, bytes| frames.push((first, bytes)));
        contents.flush(|_, _| panic!("nothing is left"));
        let sizes: Vec<_> = frames.iter().map(|(first, bytes)| (*first, bytes.len() / PAGE_BYTES)).collect();
        assert_eq!(sizes, [(1, 1024), (1025, 1024), (2049, 952)]);
        assert_eq!(frames[1].1[..4], 1024_u32.to_le_bytes());
    }

    #[test]
    fn a_budget_holds_and_known_contents_cost_nothing() {
        let mut contents = RecordedContents::new(2 * PAGE_BYTES_U64 + 100);
        let mut add = |number| contents.add(&page(number), |_, _| {}).map(|stored| stored.is_new);
        assert_eq!(
            [1, 1, 2, 3, 2].map(&mut add),
            [Ok(true), Ok(false), Ok(true), Err(BudgetSpent), Ok(false)]
        );
        assert_eq!(contents.known.len(), 2);
    }
}
