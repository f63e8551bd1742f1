//! The memory of one bundle on the GPU: filled before the first replay, compared after each, restored before the next.

use rayon::prelude::*;
use stallmap_schema::hash::content_hash;
use stallmap_schema::tables::replay::PAGE_BYTES;

use crate::address_space::AddressSpace;
use crate::bundle::{DevicePage, PageContents, ReplayBundle, SymbolPart};
use crate::error::GpuError;
use crate::gpu::{LoadedCubin, ReplayGpu};
use crate::near;

/// Page-locked memory that copies pass through.
const STAGING_BYTES: usize = 32 << 20;
const PAGE: u64 = PAGE_BYTES as u64;

/// Copies between host and GPU.
pub struct StagingBuffer {
    gpu: ReplayGpu,
    buffer: &'static mut [u8],
}

impl StagingBuffer {
    /// Allocates the buffer.
    pub fn new(gpu: ReplayGpu) -> Result<Self, GpuError> {
        Ok(Self { gpu, buffer: gpu.pinned(STAGING_BYTES)? })
    }

    /// Writes pages to a run of addresses.
    fn write_pages<'a>(
        &mut self,
        mut address: u64,
        pages: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), GpuError> {
        let mut filled = 0;
        for page in pages {
            if filled + PAGE_BYTES > self.buffer.len() {
                self.gpu.write(address, &self.buffer[..filled])?;
                address += filled as u64;
                filled = 0;
            }
            self.buffer[filled..filled + PAGE_BYTES].copy_from_slice(page);
            filled += PAGE_BYTES;
        }
        self.gpu.write(address, &self.buffer[..filled])
    }

    /// Hashes of the pages of a run of addresses.
    fn hash_pages(&mut self, address: u64, page_count: u64, hashes: &mut Vec<u64>) -> Result<(), GpuError> {
        let (mut address, mut left) = (address, page_count * PAGE);
        while left > 0 {
            let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
            let part = &mut self.buffer[..bytes];
            self.gpu.read(address, part)?;
            hashes.par_extend(part.par_chunks_exact(PAGE_BYTES).map(content_hash));
            address += bytes as u64;
            left -= bytes as u64;
        }
        Ok(())
    }
}

/// Neighbouring pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageRun {
    /// Their address in this process.
    address: u64,
    /// Their number.
    count: u64,
    /// The position of the first among all of its kind.
    first: usize,
}

/// The memory of one bundle.
pub struct BundleMemory<'a> {
    bundle: &'a ReplayBundle,
    /// Pages that the launch writes.
    written: Vec<PageRun>,
    /// The same pages, in order.
    expected: Vec<DevicePage>,
    /// A copy on the GPU of the written pages' contents before the launch, one after the other.
    backup: u64,
    /// Parts of variables with where they lie.
    symbols: Vec<(usize, u64)>,
}

/// Pages after a replay that differ from the recorded ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageComparison {
    /// Pages compared.
    pub checked_page_count: u64,
    /// The hash of each written page, in order.
    pub hashes: Vec<u64>,
    /// Positions among them of those that differ.
    pub different: Vec<usize>,
    /// Positions of those that differ only in the last bits of sums by atomics.
    pub near: Vec<usize>,
}

impl<'a> BundleMemory<'a> {
    /// Fills the memory of a bundle whose pages are mapped.
    pub fn fill(
        gpu: ReplayGpu,
        staging: &mut StagingBuffer,
        space: &AddressSpace,
        module: LoadedCubin,
        bundle: &'a ReplayBundle,
        contents: &PageContents,
    ) -> Result<Self, GpuError> {
        let symbols = locate(gpu, module, bundle)?;
        let zero = [0; PAGE_BYTES];
        // None is missing: see `ReplayBundle::check_whole`.
        let content = |id: u64| contents.get(&id).map_or(&zero[..], Vec::as_slice);
        for run in runs(space, bundle, |_| true) {
            let pages = bundle.pages.iter().skip(run.first);
            let pages = pages.take(usize::try_from(run.count).unwrap_or(0));
            staging.write_pages(run.address, pages.map(|page| content(page.content_id)))?;
        }
        let written = runs(space, bundle, |page| page.hash_after.is_some());
        let expected: Vec<DevicePage> =
            bundle.pages.iter().filter(|page| page.hash_after.is_some()).copied().collect();
        let backup = gpu.allocate(expected.len() as u64 * PAGE)?;
        let memory = Self { bundle, written, expected, backup, symbols };
        match memory.begin(gpu, contents) {
            Ok(()) => Ok(memory),
            Err(error) => {
                drop(memory.release(gpu));
                Err(error)
            }
        }
    }

    fn begin(&self, gpu: ReplayGpu, contents: &PageContents) -> Result<(), GpuError> {
        for run in &self.written {
            gpu.copy(self.backup + run.first as u64 * PAGE, run.address, run.count * PAGE)?;
        }
        self.write_symbols(gpu, contents, true)?;
        gpu.synchronize()
    }

    /// Restores the state before the launch.
    pub fn restore(&self, gpu: ReplayGpu, contents: &PageContents) -> Result<(), GpuError> {
        for run in &self.written {
            gpu.copy(run.address, self.backup + run.first as u64 * PAGE, run.count * PAGE)?;
        }
        self.write_symbols(gpu, contents, false)?;
        gpu.synchronize()
    }

    fn write_symbols(&self, gpu: ReplayGpu, contents: &PageContents, all: bool) -> Result<(), GpuError> {
        for &(index, address) in &self.symbols {
            let symbol = &self.bundle.symbols[index];
            if all || symbol.hash_after.is_some() {
                write_symbol(gpu, contents, symbol, address)?;
            }
        }
        Ok(())
    }

    /// Writes the variables of another module with the same variables.
    pub fn fill_variables(
        &self,
        gpu: ReplayGpu,
        module: LoadedCubin,
        contents: &PageContents,
    ) -> Result<(), GpuError> {
        for (index, address) in locate(gpu, module, self.bundle)? {
            write_symbol(gpu, contents, &self.bundle.symbols[index], address)?;
        }
        Ok(())
    }

    /// Compares the pages that a replay wrote with the recorded ones.
    pub fn compare(
        &self,
        gpu: ReplayGpu,
        staging: &mut StagingBuffer,
        space: &AddressSpace,
        contents: &PageContents,
    ) -> Result<PageComparison, GpuError> {
        let mut hashes = Vec::with_capacity(self.expected.len());
        for run in &self.written {
            staging.hash_pages(run.address, run.count, &mut hashes)?;
        }
        let mut expected: Vec<u64> = self.expected.iter().filter_map(|page| page.hash_after).collect();
        for &(index, address) in &self.symbols {
            let symbol = &self.bundle.symbols[index];
            if let Some(hash_after) = symbol.hash_after {
                let mut page = [0; PAGE_BYTES];
                gpu.read(address, &mut page[..symbol.size_bytes as usize])?;
                hashes.push(content_hash(&page));
                expected.push(hash_after);
            }
        }
        let different: Vec<usize> =
            (0..expected.len()).filter(|&at| hashes.get(at) != expected.get(at)).collect();
        let mut near = Vec::new();
        for &at in &different {
            if self.is_near(gpu, space, contents, at)? {
                near.push(at);
            }
        }
        Ok(PageComparison { checked_page_count: expected.len() as u64, hashes, different, near })
    }

    /// True if a page that atomics wrote differs from the recorded one in the last bits only.
    fn is_near(
        &self,
        gpu: ReplayGpu,
        space: &AddressSpace,
        contents: &PageContents,
        at: usize,
    ) -> Result<bool, GpuError> {
        let recorded = self.expected.get(at).and_then(|page| Some((page.address, page.content_after_id?)));
        let Some((address, content_id)) = recorded else { return Ok(false) };
        let Some(content) = contents.get(&content_id) else { return Ok(false) };
        let mut page = [0; PAGE_BYTES];
        gpu.read(space.translate(address).unwrap_or(address), &mut page)?;
        Ok(near::are_near(&page, content))
    }

    /// The recorded address of a compared page; `None` for parts of variables.
    pub fn address(&self, position: usize) -> Option<u64> {
        self.expected.get(position).map(|page| page.address)
    }

    /// Gives its own memory back.
    pub fn release(self, gpu: ReplayGpu) -> Result<(), GpuError> {
        gpu.free(self.backup)
    }
}

fn write_symbol(
    gpu: ReplayGpu,
    contents: &PageContents,
    symbol: &SymbolPart,
    address: u64,
) -> Result<(), GpuError> {
    let content = contents.get(&symbol.content_id);
    let content = content.and_then(|content| content.get(..symbol.size_bytes as usize));
    gpu.write(address, content.unwrap_or_default())
}

/// Addresses of the recorded parts of variables in a loaded module.
fn locate(gpu: ReplayGpu, module: LoadedCubin, bundle: &ReplayBundle) -> Result<Vec<(usize, u64)>, GpuError> {
    let part = |(index, symbol): (usize, &SymbolPart)| {
        let (address, bytes) = gpu.variable(module, &symbol.name)?;
        if symbol.offset_bytes.saturating_add(symbol.size_bytes.into()) > bytes {
            let action = format!("fill variable `{}`", symbol.name);
            return Err(GpuError::own(action, format!("it has {bytes} bytes, and more were recorded")));
        }
        Ok((index, address + symbol.offset_bytes))
    };
    bundle.symbols.iter().enumerate().map(part).collect()
}

/// The runs of a bundle's pages of one kind that are neighbours in this process.
fn runs(
    space: &AddressSpace,
    bundle: &ReplayBundle,
    is_wanted: impl Fn(&DevicePage) -> bool,
) -> Vec<PageRun> {
    let wanted = bundle.pages.iter().filter(|page| is_wanted(page));
    join(wanted.map(|page| space.translate(page.address).unwrap_or(page.address)))
}

fn join(addresses: impl Iterator<Item = u64>) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    for (first, address) in addresses.enumerate() {
        match runs.last_mut() {
            // Pages are distinct and far below the end of a number, see `CaptureBundles::read`.
            Some(last) if last.address + last.count * PAGE == address => last.count += 1,
            _ => runs.push(PageRun { address, count: 1, first }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_the_pages_in_order(pages in prop::collection::btree_set(0_u64..1 << 45, 0..100), near in 0_u64..40) {
            let addresses: Vec<u64> = pages.into_iter().chain((1 << 45)..(1 << 45) + near).map(|page| page * PAGE).collect();
            let runs = join(addresses.iter().copied());
            let of_run = |run: &PageRun| (0..run.count).map(|page| run.address + page * PAGE).collect::<Vec<_>>();
            prop_assert_eq!(runs.iter().flat_map(of_run).collect::<Vec<_>>(), addresses);
            let mut first = 0;
            for run in &runs {
                prop_assert_eq!(run.first, first);
                first += usize::try_from(run.count).unwrap();
            }
            prop_assert!(runs.windows(2).all(|two| two[0].address + two[0].count * PAGE < two[1].address));
        }
    }

    #[test]
    fn neighbours_are_joined() {
        let run = |address, count, first| PageRun { address, count, first };
        assert_eq!(
            join([0x1000, 0x2000, 0x4000, 0x5000, 0x6000].into_iter()),
            [run(0x1000, 2, 0), run(0x4000, 3, 2)]
        );
        assert!(join(std::iter::empty()).is_empty());
    }
}
