//! Classification of the pages that a launch touched, for its bundle.

use super::PAGE_SHIFT;
use super::memory::{AllocationKind, AllocationMap};
use super::ranges::PageRanges;
use super::refusal::BundleRefusal;

/// The treatment of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageTreatment {
    /// It is recorded.
    Page,
    /// It is a module's or the driver's, and its replay has its own.
    Elsewhere,
}

/// The class of a page. `variables` are the pages of the module's variables, which are recorded by name.
pub fn place(
    page: u64,
    is_written: bool,
    memory: &AllocationMap,
    variables: &PageRanges,
    device: i32,
) -> Result<PageTreatment, BundleRefusal> {
    let mut found = None;
    for allocation in memory.in_page(page) {
        if allocation.kind == AllocationKind::Device && allocation.device == device {
            return Ok(PageTreatment::Page);
        }
        found = Some(allocation.kind);
    }
    if variables.holds(page) {
        return Ok(PageTreatment::Elsewhere);
    }
    let refused =
        |reason| Err(BundleRefusal::with(reason, format_args!("address {:#x}", page << PAGE_SHIFT)));
    match found {
        Some(AllocationKind::CooperativeGroups) => Ok(PageTreatment::Elsewhere),
        // Tables and texts of the module: a replay's module has its own.
        Some(AllocationKind::Module) if !is_written => Ok(PageTreatment::Elsewhere),
        Some(AllocationKind::Module) => refused("writes a module's memory that no variable names"),
        Some(AllocationKind::Host) => refused("reads or writes host memory"),
        Some(AllocationKind::Managed) => refused("reads or writes managed memory"),
        Some(AllocationKind::DeviceLaunches) => refused("launches kernels from the device"),
        Some(AllocationKind::Device | AllocationKind::Peer) => {
            refused("reads or writes memory of another GPU")
        }
        None => refused("touches memory whose allocation was not seen"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accesses::bundle::memory::AllocatedRange;

    #[test]
    fn kinds_of_memory_have_their_places_and_reasons() {
        let mut memory = AllocationMap::default();
        let kinds = [
            AllocationKind::Device,
            AllocationKind::CooperativeGroups,
            AllocationKind::Module,
            AllocationKind::Host,
            AllocationKind::Managed,
            AllocationKind::Peer,
        ];
        for (page, kind) in (0..).zip(kinds) {
            memory.allocated(AllocatedRange { address: page << PAGE_SHIFT, bytes: 4096, device: 0, kind });
        }
        memory.allocated(AllocatedRange {
            address: 8 << PAGE_SHIFT,
            bytes: 64,
            device: 1,
            kind: AllocationKind::Device,
        });
        let variables = PageRanges::from_iter([9]);
        let reason = |page, is_written| {
            place(page, is_written, &memory, &variables, 0).map_err(|refusal| refusal.reason)
        };
        assert_eq!([0, 1, 2, 9].map(|page| reason(page, false)), {
            use PageTreatment::{Elsewhere, Page};
            [Ok(Page), Ok(Elsewhere), Ok(Elsewhere), Ok(Elsewhere)]
        });
        assert_eq!(reason(2, true), Err("writes a module's memory that no variable names"));
        assert_eq!(reason(3, false), Err("reads or writes host memory"));
        assert_eq!(reason(4, false), Err("reads or writes managed memory"));
        assert_eq!([5, 8].map(|page| reason(page, false)), [Err("reads or writes memory of another GPU"); 2]);
        assert_eq!(reason(7, false), Err("touches memory whose allocation was not seen"));
    }
}
