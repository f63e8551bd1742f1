//! Pinned host memory that device memory is copied to: chunks that are reused for each launch.
#![expect(unsafe_code, reason = "memory that the sanitizer API allocates")]

use std::ffi::c_void;
use std::ops::Range;

use super::ranges::PageRanges;
use super::{PAGE_SHIFT, PageBytes};

/// Pages of a chunk: 64 MiB.
pub const CHUNK_PAGES: usize = 16 << 10;

/// Copies pages of the device's memory. There are as many as the target has room for.
pub type ReadPages<'a> = dyn FnMut(Range<u64>, &mut [PageBytes]) -> Result<(), String> + 'a;

/// Copies bytes from an address of the device's memory.
pub type CopyBytes<'a> = dyn FnMut(&mut [u8], u64) -> Result<(), String> + 'a;

/// Memory for pages, numbered from 0.
#[derive(Default)]
pub struct PageBuffer {
    chunks: Vec<*mut PageBytes>,
}

// SAFETY: the pointers are to memory that only this buffer knows.
unsafe impl Send for PageBuffer {}

impl PageBuffer {
    /// Makes room for so many pages. `allocate` gives zeroed or unwritten host memory of so many bytes, for good.
    ///
    /// # Safety
    /// Memory from `allocate` is writable, has no other owner, and lives as long as the buffer.
    pub unsafe fn reserve(
        &mut self,
        pages: usize,
        mut allocate: impl FnMut(usize) -> Result<*mut c_void, String>,
    ) -> Result<(), String> {
        while self.chunks.len() * CHUNK_PAGES < pages {
            let chunk = allocate(CHUNK_PAGES * size_of::<PageBytes>())?.cast::<PageBytes>();
            // SAFETY: by this function's contract. Bytes of any value are pages, but they must have one.
            unsafe { chunk.write_bytes(0, CHUNK_PAGES) };
            self.chunks.push(chunk);
        }
        Ok(())
    }

    /// A page; `None` beyond the reserved ones.
    pub fn page(&self, number: usize) -> Option<&PageBytes> {
        let chunk = self.chunks.get(number / CHUNK_PAGES)?;
        // SAFETY: each chunk has so many pages and lives as long as the buffer.
        Some(unsafe { &*chunk.add(number % CHUNK_PAGES) })
    }

    /// Pages in a row, up to the end of their chunk.
    pub fn pages(&mut self, first: usize, count: usize) -> &mut [PageBytes] {
        let offset = first % CHUNK_PAGES;
        let Some(chunk) = self.chunks.get(first / CHUNK_PAGES) else { return &mut [] };
        // SAFETY: the chunk has so many pages, lives as long as the buffer, and is borrowed with it.
        unsafe { std::slice::from_raw_parts_mut(chunk.add(offset), count.min(CHUNK_PAGES - offset)) }
    }

    /// Fills the buffer with the pages of ranges, in order.
    pub fn load(&mut self, ranges: &PageRanges, read: &mut ReadPages) -> Result<(), String> {
        for (pages, first) in windows(ranges) {
            let target = self.pages(first, count(&pages));
            if target.len() < count(&pages) {
                return Err("the buffer is too small".to_owned());
            }
            read(pages, target)?;
        }
        Ok(())
    }
}

/// The ranges cut at the ends of chunks, each with the number of its first page.
pub fn windows(ranges: &PageRanges) -> Vec<(Range<u64>, usize)> {
    let (mut windows, mut number) = (Vec::new(), 0);
    for Range { mut start, end } in ranges.iter() {
        while start < end {
            let room = CHUNK_PAGES - number % CHUNK_PAGES;
            let length = count(&(start..end)).min(room);
            windows.push((start..start + length as u64, number));
            start += length as u64;
            number += length;
        }
    }
    windows
}

/// Fills pages from the pieces of them that are memory. The rest is zeros. `copy` reads from an address.
pub fn fill(
    pages: Range<u64>,
    target: &mut [PageBytes],
    pieces: &[Range<u64>],
    copy: &mut CopyBytes,
) -> Result<(), String> {
    let (base, bytes) = (pages.start << PAGE_SHIFT, target.as_flattened_mut());
    let offset = |address: u64| usize::try_from(address.saturating_sub(base)).unwrap_or(usize::MAX);
    let mut filled = 0;
    for piece in pieces {
        let (start, end) = (offset(piece.start), offset(piece.end));
        if let Some(gap) = bytes.get_mut(filled..start) {
            gap.fill(0);
        }
        let part = bytes.get_mut(start..end).ok_or("a piece of memory lies outside its pages")?;
        copy(part, piece.start)?;
        filled = end;
    }
    if let Some(gap) = bytes.get_mut(filled..) {
        gap.fill(0);
    }
    Ok(())
}

fn count(pages: &Range<u64>) -> usize {
    usize::try_from(pages.end.saturating_sub(pages.start)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_fill_chunks_in_order() {
        let mut ranges = PageRanges::default();
        ranges.add(10..20);
        ranges.add(100..100 + CHUNK_PAGES as u64);
        let mut buffer = PageBuffer::default();
        // SAFETY: leaked memory lives for good.
        unsafe {
            // Leaked, as pinned memory is.
            let allocate = |bytes| Ok(Box::leak(vec![0_u8; bytes].into_boxed_slice()).as_mut_ptr().cast());
            buffer.reserve(CHUNK_PAGES + 10, allocate)
        }
        .unwrap();
        let mut seen = Vec::new();
        let mut read = |pages: Range<u64>, target: &mut [PageBytes]| {
            for (page, target) in pages.clone().zip(target) {
                target[..8].copy_from_slice(&page.to_le_bytes());
            }
            seen.push(pages);
            Ok(())
        };
        buffer.load(&ranges, &mut read).unwrap();
        let split = 100 + CHUNK_PAGES as u64 - 10;
        assert_eq!(seen, [10..20, 100..split, split..split + 10]);
        let page = |number| buffer.page(number).map(|page| u64::from_le_bytes(*page.first_chunk().unwrap()));
        assert_eq!([0, 9, 10, CHUNK_PAGES].map(page), [Some(10), Some(19), Some(100), Some(split)]);
        assert_eq!(page(2 * CHUNK_PAGES), None);
    }

    #[test]
    fn what_is_no_memory_is_zero() {
        let mut target = [[7; 4096]; 2];
        let mut copy = |part: &mut [u8], address: u64| {
            part.fill(u8::try_from(address >> 8 & 0xff).unwrap());
            Ok(())
        };
        fill(1..3, &mut target, &[0x1000..0x1100, 0x1800..0x2010], &mut copy).unwrap();
        let bytes = target.as_flattened();
        assert_eq!([bytes[0xff], bytes[0x100], bytes[0x7ff]], [0x10, 0, 0]);
        assert_eq!([bytes[0x800], bytes[0x100f], bytes[0x1010], bytes[0x1fff]], [0x18, 0x18, 0, 0]);
        assert!(fill(1..2, &mut target[..1], &[0x1000..0x1800, 0x1800..0x2001], &mut copy).is_err());
    }
}
