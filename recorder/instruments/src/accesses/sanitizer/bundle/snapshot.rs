//! All device memory of the program, saved and given back.

use std::ops::Range;

use stallmap_session::gpu::graphs;
use stallmap_sys::cuda::DriverHandle;

use super::super::{AccessInstrument, own};
use super::{CopySource, MAX_SAVED_BYTES};
use crate::accesses::bundle::buffer::{self, PageBuffer};
use crate::accesses::bundle::memory::AllocationMap;
use crate::accesses::bundle::ranges::PageRanges;
use crate::accesses::bundle::refusal::{BundleRefusal, reason};
use crate::accesses::bundle::symbols::ModuleVariable;
use crate::accesses::bundle::{PAGE_BYTES_U64, PAGE_SHIFT, PageBytes};

/// Memory whose contents were saved at one moment.
pub(super) struct SavedMemory {
    source: CopySource,
    memory: AllocationMap,
    pages: PageRanges,
    variables: Vec<(ModuleVariable, Vec<u8>)>,
}

impl AccessInstrument {
    /// Saves the memory of a context's device in `contents`, and variables. Nothing may run.
    pub(super) fn snapshot(
        &self,
        (context, device): (DriverHandle, i32),
        memory: AllocationMap,
        symbols: Vec<ModuleVariable>,
        contents: &mut PageBuffer,
    ) -> Result<SavedMemory, BundleRefusal> {
        let source = CopySource { device, stream: DriverHandle::NULL };
        let pages = memory.device_pages(device);
        if pages.count() > MAX_SAVED_BYTES / PAGE_BYTES_U64 {
            return Err(BundleRefusal::for_reason("its CUDA graph may write more than 16 GiB"));
        }
        let count = usize::try_from(pages.count()).unwrap_or(usize::MAX);
        let mut read =
            |pages: Range<u64>, target: &mut [PageBytes]| self.read_pages(source, &memory, pages, target);
        let saved = self
            .reserve(contents, count, context)
            .and_then(|()| contents.load(&pages, &mut read))
            .and_then(|()| self.read_variables(source, &symbols));
        let variables = saved.map_err(|error| BundleRefusal::with(reason::UNREADABLE, error))?;
        Ok(SavedMemory { source, memory, pages, variables: symbols.into_iter().zip(variables).collect() })
    }

    /// Gives memory its `contents` back, where they have changed. Nothing may run.
    pub(super) fn restore(
        &self,
        context: DriverHandle,
        SavedMemory { source, memory, pages, variables }: &SavedMemory,
        (contents, window): (&mut PageBuffer, &mut PageBuffer),
    ) -> Result<(), String> {
        self.reserve(window, buffer::CHUNK_PAGES, context)?;
        for (pages, first) in buffer::windows(pages) {
            let count = usize::try_from(pages.end - pages.start).unwrap_or(usize::MAX);
            let now = window.pages(first % buffer::CHUNK_PAGES, count);
            self.read_pages(*source, memory, pages.clone(), now)?;
            let before = contents.pages(first, count);
            for ((page, now), before) in pages.zip(now.iter()).zip(before.iter()) {
                if now != before {
                    self.restore_page(memory, source.device, page, before)?;
                }
            }
        }
        for (symbol, bytes) in variables {
            self.write_bytes(symbol.address, bytes)?;
        }
        own(graphs::synchronize).map_err(|code| format!("CUDA error {code}"))
    }

    /// Only the parts of a page that are the program's.
    fn restore_page(
        &self,
        memory: &AllocationMap,
        device: i32,
        page: u64,
        content: &PageBytes,
    ) -> Result<(), String> {
        let start = page << PAGE_SHIFT;
        for piece in memory.pieces(page..page + 1, device) {
            let place = |address: u64| usize::try_from(address.saturating_sub(start)).unwrap_or(usize::MAX);
            let part =
                content.get(place(piece.start)..place(piece.end)).ok_or("a piece lies outside its page")?;
            self.write_bytes(piece.start, part)?;
        }
        Ok(())
    }
}
