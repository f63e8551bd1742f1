//! Map from an instruction's absolute address to (function, pc), at a launch.

use std::collections::BTreeMap;

use stallmap_schema::capture::recording::CodeRange;
use stallmap_schema::id::{FunctionId, Pc};

use super::modules::RecordedModules;

/// Address ranges of one run's functions, over the whole run.
#[derive(Debug, Default)]
pub(crate) struct CodeMap {
    /// By first address: pieces of the address space within which the same functions lie.
    pieces: BTreeMap<u64, CodePiece>,
    /// Functions inside a kernel's code, by kernel: (first pc, pc behind the last, function).
    inner: BTreeMap<FunctionId, Vec<(u32, u32, FunctionId)>>,
}

#[derive(Debug)]
struct CodePiece {
    end: u64,
    /// Functions at these addresses, in the order in which they were loaded.
    tenants: Vec<AddressTenant>,
}

#[derive(Clone, Copy, Debug)]
struct AddressTenant {
    /// The first launch for which this one holds.
    ordinal: u64,
    address: u64,
    function_id: FunctionId,
}

impl CodeMap {
    /// The map of a run's code ranges, in the order in which they were recorded.
    pub(crate) fn new(ranges: &[CodeRange], modules: &RecordedModules) -> Self {
        let known = || ranges.iter().filter(|range| range.address.0 != 0 && range.code_bytes != 0);
        let end = |range: &CodeRange| range.address.0.saturating_add(range.code_bytes);
        let mut borders: Vec<u64> = known().flat_map(|range| [range.address.0, end(range)]).collect();
        borders.sort_unstable();
        borders.dedup();
        let mut map = Self::default();
        for pair in borders.windows(2) {
            map.pieces.insert(pair[0], CodePiece { end: pair[1], tenants: Vec::new() });
        }
        for range in known() {
            let tenant = AddressTenant {
                ordinal: range.ordinal,
                address: range.address.0,
                function_id: range.function_id,
            };
            for (_, piece) in map.pieces.range_mut(range.address.0..end(range)) {
                piece.tenants.push(tenant);
            }
        }
        for range in ranges.iter().filter(|range| range.is_kernel) {
            let inner = modules.inner_functions(range.module_id, &range.name);
            if !inner.is_empty() {
                map.inner.insert(range.function_id, inner);
            }
        }
        map
    }

    /// The function that holds the instruction at an address when a launch runs, and the instruction's offset in it.
    pub(crate) fn find(&self, address: u64, ordinal: u64) -> Option<(FunctionId, Pc)> {
        let (_, piece) =
            self.pieces.range(..=address).next_back().filter(|(_, piece)| address < piece.end)?;
        let tenant = piece.tenants.iter().rev().find(|tenant| tenant.ordinal <= ordinal)?;
        let pc = u32::try_from(address - tenant.address).ok()?;
        Some(self.refine(tenant.function_id, Pc(pc)))
    }

    /// An offset in a kernel's code may lie in a function that the kernel calls and that stands behind it.
    pub(crate) fn refine(&self, function_id: FunctionId, pc: Pc) -> (FunctionId, Pc) {
        let inner = self.inner.get(&function_id).map_or(&[][..], Vec::as_slice);
        match inner.iter().find(|(start, end, _)| (*start..*end).contains(&pc.0)) {
            Some((start, _, function)) => (*function, Pc(pc.0 - start)),
            None => (function_id, pc),
        }
    }
}

#[cfg(test)]
mod tests {
    use stallmap_schema::id::{Address, ModuleId};

    use super::*;

    fn range(function: u64, address: u64, ordinal: u64) -> CodeRange {
        CodeRange {
            function_id: FunctionId(function),
            module_id: ModuleId(1),
            name: format!("f{function}"),
            is_kernel: true,
            address: Address(address),
            code_bytes: 0x100,
            ordinal,
        }
    }

    #[test]
    fn an_address_belongs_to_who_lies_there_at_the_launch() {
        let ranges = [range(1, 0x1000, 0), range(2, 0x1100, 0), range(3, 0x1080, 5)];
        let map = CodeMap::new(&ranges, &RecordedModules::default());
        let found = |address, ordinal| map.find(address, ordinal).map(|(function, pc)| (function.0, pc.0));
        assert_eq!(found(0x1000, 0), Some((1, 0)));
        assert_eq!(found(0x10f0, 4), Some((1, 0xf0)));
        assert_eq!(found(0x10f0, 5), Some((3, 0x70)));
        assert_eq!(found(0x1110, 5), Some((3, 0x90)));
        assert_eq!(found(0x1180, 9), Some((2, 0x80)));
        assert_eq!(found(0x1200, 9), None);
        assert_eq!(found(0xfff, 9), None);
    }
}
