//! Classification of the pages that a launch touched, for its bundle.

use super::PAGE_SHIFT;
use super::memory::{Kind, Map};
use super::ranges::Ranges;
use super::refusal::Refusal;

/// The treatment of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is recorded.
    Page,
    /// It is a module's or the driver's, and its replay has its own.
    Elsewhere,
}

/// The class of a page. `variables` are the pages of the module's variables, which are recorded by name.
pub fn place(
    page: u64,
    is_written: bool,
    memory: &Map,
    variables: &Ranges,
    device: i32,
) -> Result<Place, Refusal> {
    let mut found = None;
    for allocation in memory.in_page(page) {
        if allocation.kind == Kind::Device && allocation.device == device {
            return Ok(Place::Page);
        }
        found = Some(allocation.kind);
    }
    if variables.holds(page) {
        return Ok(Place::Elsewhere);
    }
    let refused = |reason| Err(Refusal::with(reason, format_args!("address {:#x}", page << PAGE_SHIFT)));
    match found {
        Some(Kind::CooperativeGroups) => Ok(Place::Elsewhere),
        // Tables and texts of the module: a replay's module has its own.
        Some(Kind::Module) if !is_written => Ok(Place::Elsewhere),
        Some(Kind::Module) => refused("writes a module's memory that no variable names"),
        Some(Kind::Host) => refused("reads or writes host memory"),
        Some(Kind::Managed) => refused("reads or writes managed memory"),
        Some(Kind::DeviceLaunches) => refused("launches kernels from the device"),
        Some(Kind::Device | Kind::Peer) => refused("reads or writes memory of another GPU"),
        None => refused("touches memory whose allocation was not seen"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::memory::Allocation;

    #[test]
    fn kinds_of_memory_have_their_places_and_reasons() {
        let mut memory = Map::default();
        let kinds =
            [Kind::Device, Kind::CooperativeGroups, Kind::Module, Kind::Host, Kind::Managed, Kind::Peer];
        for (page, kind) in (0..).zip(kinds) {
            memory.allocated(Allocation { address: page << PAGE_SHIFT, bytes: 4096, device: 0, kind });
        }
        memory.allocated(Allocation { address: 8 << PAGE_SHIFT, bytes: 64, device: 1, kind: Kind::Device });
        let variables = Ranges::from_iter([9]);
        let reason = |page, is_written| {
            place(page, is_written, &memory, &variables, 0).map_err(|refusal| refusal.reason)
        };
        assert_eq!([0, 1, 2, 9].map(|page| reason(page, false)), {
            use Place::{Elsewhere, Page};
            [Ok(Page), Ok(Elsewhere), Ok(Elsewhere), Ok(Elsewhere)]
        });
        assert_eq!(reason(2, true), Err("writes a module's memory that no variable names"));
        assert_eq!(reason(3, false), Err("reads or writes host memory"));
        assert_eq!(reason(4, false), Err("reads or writes managed memory"));
        assert_eq!([5, 8].map(|page| reason(page, false)), [Err("reads or writes memory of another GPU"); 2]);
        assert_eq!(reason(7, false), Err("touches memory whose allocation was not seen"));
    }
}
