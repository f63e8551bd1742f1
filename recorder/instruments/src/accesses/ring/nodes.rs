//! Map from grids to nodes of executable graphs: a hash table in device memory.
//!
//! All nodes of a graph launch share one userdata: a warp finds its node by the number of its grid. The API reports
//! that number when the node is launched, and it stays the node's from launch to launch.

use std::collections::BTreeMap;

use super::{RingContext, allocate, check, copy};

/// `struct Node` of `device/access.cu`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct NodeEntry {
    grid: u64,
    offset: u32,
    block_stride: u32,
    position: u32,
    padding: u32,
}

/// The table of one executable graph.
pub(super) struct NodeTable {
    address: u64,
    /// The device's content, by position.
    entries: Vec<NodeEntry>,
    /// Positions by grid.
    positions: BTreeMap<u64, usize>,
    room: u32,
}

impl NodeTable {
    /// A table for `room` nodes.
    pub(super) fn new(gpu: RingContext, room: u32) -> Result<Self, String> {
        let size = (room.max(8) as usize * 2).next_power_of_two();
        let bytes = size * size_of::<NodeEntry>();
        let table = allocate(gpu.api.alloc, gpu.context, bytes)?;
        // SAFETY: the table has that many bytes.
        check(unsafe { (gpu.api.set)(table, 0, bytes, gpu.stream) })?;
        let entries = vec![NodeEntry::default(); size];
        Ok(Self { address: table as u64, entries, positions: BTreeMap::new(), room })
    }

    /// Its address.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Entries minus 1: their number is a power of two.
    pub(super) fn mask(&self) -> u32 {
        u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
    }

    /// Nodes that are in it.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.positions.len()).unwrap_or(u32::MAX)
    }

    /// Nodes that can be.
    pub(super) fn room(&self) -> u32 {
        self.room
    }

    /// The offset of the node that the grid of this number runs. Its ordinal in this launch of the graph is the first
    /// one plus `at`.
    pub(super) fn place(
        &mut self,
        gpu: RingContext,
        grid: u64,
        block_stride: u32,
        at: u32,
    ) -> Result<u32, String> {
        let known = self.positions.get(&grid).copied();
        let position = match known {
            Some(position) => position,
            None if self.len() < self.room && grid != 0 => {
                let position = free(&self.entries, grid);
                let offset = self.len();
                self.positions.insert(grid, position);
                self.entries[position] = NodeEntry { grid, offset, ..NodeEntry::default() };
                position
            }
            None => return Err("its graph has more nodes than were instantiated".to_owned()),
        };
        let entry = &mut self.entries[position];
        let (offset, is_same) = (entry.offset, (entry.block_stride, entry.position) == (block_stride, at));
        if known.is_none() || !is_same {
            (entry.block_stride, entry.position) = (block_stride, at);
            copy(gpu, self.address + (position * size_of::<NodeEntry>()) as u64, &[*entry])?;
        }
        Ok(offset)
    }

    /// Lets the node that the grid of this number runs record nothing. The device must know it too: it counts the
    /// requests of grids that it does not know as lost.
    pub(super) fn skip(&mut self, gpu: RingContext, grid: u64) -> Result<(), String> {
        self.place(gpu, grid, 0, 0).map(drop)
    }
}

/// Position for a grid: the first free one from its own on. Half of the table is always free.
fn free(entries: &[NodeEntry], grid: u64) -> usize {
    let mask = entries.len() - 1;
    let own = usize::try_from(grid & mask as u64).unwrap_or(0);
    (own..own + entries.len()).map(|at| at & mask).find(|&at| entries[at].grid == 0).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_that_meet_find_places_of_their_own() {
        let mut entries = vec![NodeEntry::default(); 16];
        let positions: Vec<usize> = [4, 20, 36, 5, 31]
            .into_iter()
            .map(|grid| {
                let at = free(&entries, grid);
                entries[at].grid = grid;
                at
            })
            .collect();
        assert_eq!(positions, [4, 5, 6, 7, 15]);
    }
}
