//! Heat maps of tensors: accesses to each bin.

use std::sync::Arc;

use crate::memory::bins::{BinCounts, HeatCell};
use crate::memory::cells::{AccessedBin, BinFinder};
use crate::memory::numbers::position;
use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::id::{FunctionId, KernelId, Pc, TensorId};

use super::access::{AccessBatch, InstructionColumns, WarpColumns};
use super::analyses::AnalysisScan;
use super::analysis::{AccessAnalysis, ReadyRows};
use super::derived::{LaunchCellPart, OpenWord, PcCellPart};
use super::distinct::{DistinctItems, crowd_of};
use super::grid::BinGrid;
use super::request::WarpRequest;
use super::resolve::{AddressResolver, AddressTarget, LaneShare};

/// The rows of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellGrain {
    /// A bin in a launch: `launch_cell_part`.
    Launch,
    /// A bin for an instruction of a launch: `pc_cell_part`.
    Instruction,
    /// Both tables.
    Both,
}

/// An instruction of a launch.
type CellKey = (u64, u64, u32);

/// Aggregates accesses by bin.
pub(super) struct BinCells {
    resolver: AddressResolver,
    asked: Arc<AnalysisScan>,
    grain: CellGrain,
    /// True if blocks and warps are counted.
    counts_blocks: bool,
    finder: BinFinder,
    key: Option<CellKey>,
    of_launch: LaunchLayers,
    of_instruction: LaunchLayers,
    /// Distinct blocks and warps of each bin of the launch's layers, by its number among those of all.
    crowds: DistinctItems,
    shares: Vec<LaneShare>,
    by_launch: ReadyRows<LaunchCellPart>,
    by_instruction: ReadyRows<PcCellPart>,
}

/// Accesses of a launch, or of an instruction in it.
#[derive(Default)]
struct LaunchLayers {
    /// By view and kind, in order of appearance.
    open: Vec<TensorLayer>,
    /// Bins of all layers.
    bins: u32,
    /// Places of cells, all 0, for the next layers.
    spare: Vec<Vec<u32>>,
}

/// One tensor's accesses of one kind.
struct TensorLayer {
    view: u32,
    kind: OpenWord,
    counts: BinCounts,
    /// Bins of the layers before.
    before: u32,
}

/// A layer with its accessed cells, by number.
struct FinishedLayer {
    view: u32,
    kind: OpenWord,
    cells: Vec<(u32, HeatCell)>,
    /// See [`TensorLayer`].
    before: u32,
}

impl LaunchLayers {
    /// The number of the layer of a view and a kind. Few are open at a time.
    fn place(&mut self, view: u32, kind: &OpenWord, grid: &BinGrid) -> usize {
        let known = self.open.iter().position(|layer| layer.view == view && layer.kind == *kind);
        known.unwrap_or_else(|| {
            let counts = BinCounts::new(grid.size(), self.spare.pop().unwrap_or_default());
            self.open.push(TensorLayer { view, kind: kind.clone(), counts, before: self.bins });
            self.bins = self.bins.saturating_add(position(grid.size()));
            self.open.len() - 1
        })
    }

    /// Counts a warp request in a bin of a layer. Returns the bin's number among those of all layers.
    fn count(&mut self, layer: usize, accessed: &AccessedBin) -> Option<(u32, &mut HeatCell)> {
        let layer = self.open.get_mut(layer)?;
        let cell = layer.counts.cell(accessed.cell)?;
        cell.touches += accessed.elements;
        cell.requests += 1;
        cell.sectors += accessed.sectors;
        Some((layer.before.saturating_add(accessed.cell), cell))
    }

    /// Ends all layers.
    fn finish(&mut self) -> Vec<FinishedLayer> {
        let layers = std::mem::take(&mut self.open);
        self.bins = 0;
        let finished = layers.into_iter().map(|layer| {
            let (cells, places) = layer.counts.finish();
            self.spare.push(places);
            FinishedLayer { view: layer.view, kind: layer.kind, cells, before: layer.before }
        });
        finished.collect()
    }

    fn bytes(&self) -> usize {
        self.open.iter().map(|layer| layer.counts.bytes()).sum()
    }
}

impl BinCells {
    /// With some bytes of memory for a launch.
    pub(super) fn new(
        resolver: AddressResolver,
        asked: Arc<AnalysisScan>,
        grain: CellGrain,
        room_bytes: usize,
    ) -> Self {
        let has_blocks = asked.has_any(&["blocks", "warps", "block_rate"]);
        Self {
            counts_blocks: grain != CellGrain::Instruction && has_blocks,
            resolver,
            asked,
            grain,
            finder: BinFinder::default(),
            key: None,
            of_launch: LaunchLayers::default(),
            of_instruction: LaunchLayers::default(),
            crowds: DistinctItems::new(room_bytes),
            shares: Vec::new(),
            by_launch: ReadyRows::default(),
            by_instruction: ReadyRows::default(),
        }
    }

    /// Adds the lanes of a request that belong to a tensor.
    fn add_share(
        &mut self,
        request: &WarpRequest<'_>,
        share: LaneShare,
        kind: &OpenWord,
        (block, warp): (u64, u16),
    ) {
        let AddressTarget::Tensor(view) = share.target else { return };
        if !self.asked.wants(view) {
            return;
        }
        let Some(indexed) = self.resolver.index().views.get(view as usize) else { return };
        let (grid, cells) = self.finder.find(view, &indexed.view, request, share.lane_mask);
        if self.grain != CellGrain::Launch {
            let layer = self.of_instruction.place(view, kind, grid);
            for accessed in cells {
                self.of_instruction.count(layer, accessed);
            }
        }
        if self.grain != CellGrain::Instruction {
            let layer = self.of_launch.place(view, kind, grid);
            for accessed in cells {
                let Some((bin, cell)) = self.of_launch.count(layer, accessed) else { continue };
                if self.counts_blocks && cell.last != Some((block, warp)) {
                    cell.last = Some((block, warp));
                    self.crowds.add(bin, block, warp);
                }
            }
        }
    }

    /// Ends the open instruction.
    fn close(&mut self) {
        let Some((kernel_id, function_id, pc)) = self.key.take() else { return };
        for FinishedLayer { view, kind, cells, .. } in self.of_instruction.finish() {
            let Some((grid, tensor_id)) = drawn(&self.finder, &self.resolver, view) else { continue };
            for (number, cell) in cells {
                let place = grid.cell_of(number);
                self.by_instruction.push(PcCellPart {
                    kernel_id: KernelId(kernel_id),
                    function_id: FunctionId(function_id),
                    pc: Pc(pc),
                    kind: kind.clone(),
                    tensor_id,
                    cell_row: place.map(|(row, _)| row),
                    cell_column: place.map(|(_, column)| column),
                    touches: cell.touches,
                    requests: cell.requests,
                    sectors: cell.sectors,
                });
            }
        }
    }

    /// Ends the launch.
    fn close_launch(&mut self, kernel_id: u64) {
        let (crowds, block_rate) = self.crowds.count();
        for FinishedLayer { view, kind, cells, before } in self.of_launch.finish() {
            let Some((grid, tensor_id)) = drawn(&self.finder, &self.resolver, view) else { continue };
            for (number, cell) in cells {
                let place = grid.cell_of(number);
                let crowd = crowd_of(&crowds, before.saturating_add(number)).unwrap_or_default();
                self.by_launch.push(LaunchCellPart {
                    kernel_id: KernelId(kernel_id),
                    kind: kind.clone(),
                    tensor_id,
                    cell_row: place.map(|(row, _)| row),
                    cell_column: place.map(|(_, column)| column),
                    row_count: grid.rows().count,
                    column_count: grid.columns().count,
                    row_dimension: grid.rows().dimension,
                    column_dimension: grid.columns().dimension,
                    row_extent: grid.rows().extent,
                    column_extent: grid.columns().extent,
                    touches: cell.touches,
                    requests: cell.requests,
                    sectors: cell.sectors,
                    blocks: crowd.blocks,
                    warps: crowd.warps,
                    block_rate,
                });
            }
        }
    }
}

/// The bins of a view, and its tensor.
fn drawn<'a>(
    finder: &'a BinFinder,
    resolver: &AddressResolver,
    view: u32,
) -> Option<(&'a BinGrid, TensorId)> {
    let tensor_id = resolver.index().views.get(view as usize)?.tensor_id;
    Some((finder.grid(view)?, TensorId(tensor_id)))
}

impl AccessAnalysis for BinCells {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, instructions) = (AccessBatch::new(batch)?, InstructionColumns::new(batch)?);
        let warp_columns = WarpColumns::new(batch)?;
        let kinds: Vec<OpenWord> =
            instructions.kind.words.iter().map(|&word| OpenWord(word.into())).collect();
        for row in 0..batch.num_rows() {
            let kernel_id = accesses.kernel_id[row];
            let key = (kernel_id, instructions.function_id[row], instructions.pc[row]);
            if self.key != Some(key) {
                self.close();
                self.key = Some(key);
                self.resolver.move_to(kernel_id);
            }
            let request = accesses.request(row);
            let Some(kind) = kinds.get(instructions.kind.code(row)) else { continue };
            if !accesses.is_global(row) || !self.asked.wants_bytes(request.address, request.span_bytes) {
                continue;
            }
            let mut shares = std::mem::take(&mut self.shares);
            self.resolver.resolve(&request, &mut shares);
            for &share in &shares {
                self.add_share(&request, share, kind, (warp_columns.block[row], warp_columns.warp[row]));
            }
            self.shares = shares;
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        let kernel_id = self.key.map(|(kernel_id, ..)| kernel_id);
        self.close();
        if let Some(kernel_id) = kernel_id {
            self.close_launch(kernel_id);
        }
    }

    fn bytes(&self) -> usize {
        self.crowds.bytes() + self.finder.bytes() + self.of_launch.bytes() + self.of_instruction.bytes()
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        match self.by_instruction.take(least)? {
            None => self.by_launch.take(least),
            rows => Ok(rows),
        }
    }
}
