//! Heat maps of tensors: accesses to each bin.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::HashMap;
use datafusion::error::Result;
use stallmap_memory::bins::{Bins, Cell, Counts, Touch, sectors};
use stallmap_schema::id::{FunctionId, KernelId, Pc, TensorId};

use super::access::{Accesses, Instructions, Places};
use super::analyses::Asked;
use super::analysis::{Analysis, Ready};
use super::derived::{LaunchCellPart, PcCellPart, Word};
use super::distinct::{Crowd, Distinct, crowd_of};
use super::grid::{Grid, Line};
use super::request::Request;
use super::resolve::{Resolver, Share, Target};

/// Level of a result row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// A bin in a launch: `launch_cell_part`.
    Launch,
    /// A bin for an instruction of a launch: `pc_cell_part`.
    Instruction,
}

/// One launch, and instruction if these are distinguished.
type Key = (u64, u64, u32);

/// Aggregates accesses by bin.
pub(super) struct Cells {
    resolver: Resolver,
    asked: Arc<Asked>,
    grain: Grain,
    /// True if blocks and warps are counted.
    counts_blocks: bool,
    /// By view, with the line of the last address.
    grids: HashMap<u32, (Grid, Option<Line>)>,
    key: Option<Key>,
    /// By view and kind, in order of appearance.
    layers: Vec<Layer>,
    /// Places of cells, all 0, for the next layers.
    spare: Vec<Vec<u32>>,
    /// Distinct blocks and warps of each layer's bins.
    crowds: Distinct<(u32, u32)>,
    shares: Vec<Share>,
    touched: Vec<Touch>,
    by_launch: Ready<LaunchCellPart>,
    by_instruction: Ready<PcCellPart>,
}

/// One tensor's accesses of one kind.
struct Layer {
    view: u32,
    kind: Word,
    counts: Counts,
}

impl Cells {
    /// With some bytes of memory for a launch.
    pub(super) fn new(resolver: Resolver, asked: Arc<Asked>, grain: Grain, room_bytes: usize) -> Self {
        Self {
            counts_blocks: grain == Grain::Launch && asked.has_any(&["blocks", "warps", "block_rate"]),
            resolver,
            asked,
            grain,
            grids: HashMap::new(),
            key: None,
            layers: Vec::new(),
            spare: Vec::new(),
            crowds: Distinct::new(room_bytes),
            shares: Vec::new(),
            touched: Vec::new(),
            by_launch: Ready::default(),
            by_instruction: Ready::default(),
        }
    }

    /// Adds the lanes of a request that belong to a tensor.
    fn add_share(&mut self, request: &Request<'_>, share: Share, kind: &Word, (block, warp): (u64, u16)) {
        let Target::Tensor(place) = share.target else { return };
        if !self.asked.wants(place) {
            return;
        }
        let Some(indexed) = self.resolver.index().views.get(place as usize) else { return };
        let view = &indexed.view;
        let (grid, line) = self.grids.entry(place).or_insert_with(|| (Grid::new(view), None));
        self.touched.clear();
        let is_whole = share.lane_mask == request.lane_mask;
        let mut bins = Bins { view, grid, line, touched: &mut self.touched };
        if !(is_whole && bins.touch_runs(request)) {
            bins.touched.clear();
            bins.touch_lanes(request, share.lane_mask);
        }
        if !self.touched.is_sorted() {
            self.touched.sort_unstable();
        }
        let size = grid.size();
        let layer = self.layer(place, kind, size);
        self.count(layer, (block, warp));
    }

    /// The layer of a view and a kind. Few are open at a time.
    fn layer(&mut self, view: u32, kind: &Word, size: usize) -> usize {
        let known = self.layers.iter().position(|layer| layer.view == view && layer.kind == *kind);
        known.unwrap_or_else(|| {
            let counts = Counts::new(size, self.spare.pop().unwrap_or_default());
            self.layers.push(Layer { view, kind: kind.clone(), counts });
            self.layers.len() - 1
        })
    }

    /// Adds the accesses of one request to the bins of a layer.
    fn count(&mut self, layer: usize, (block, warp): (u64, u16)) {
        let number = u32::try_from(layer).unwrap_or(u32::MAX);
        let Some(layer) = self.layers.get_mut(layer) else { return };
        for touches in self.touched.chunk_by(|one, other| one.cell == other.cell) {
            let Some(&Touch { cell: place, .. }) = touches.first() else { continue };
            let Some(cell) = layer.counts.cell(place) else { continue };
            cell.touches += touches.iter().map(|touch| touch.elements).sum::<u64>();
            cell.requests += 1;
            cell.sectors += sectors(touches);
            if self.counts_blocks && cell.last != Some((block, warp)) {
                cell.last = Some((block, warp));
                self.crowds.add((number, place), block, warp);
            }
        }
    }

    /// Ends the open launch or instruction.
    fn close(&mut self) {
        let Some(key) = self.key.take() else { return };
        let (crowds, block_rate) = self.crowds.count();
        for (number, layer) in (0..).zip(std::mem::take(&mut self.layers)) {
            let (view, kind) = (layer.view, layer.kind.clone());
            let (cells, places) = layer.counts.finish();
            self.spare.push(places);
            for (place, cell) in cells {
                let crowd = crowd_of(&crowds, (number, place)).unwrap_or_default();
                self.push(key, (view, &kind), (place, &cell), (crowd, block_rate));
            }
        }
    }

    fn push(
        &mut self,
        (kernel_id, function_id, pc): Key,
        (view, kind): (u32, &Word),
        (place, cell): (u32, &Cell),
        (crowd, block_rate): (Crowd, f64),
    ) {
        let index = self.resolver.index();
        let (Some((grid, _)), Some(view)) = (self.grids.get(&view), index.views.get(view as usize)) else {
            return;
        };
        let place = grid.cell_of(place);
        let row = LaunchCellPart {
            kernel_id: KernelId(kernel_id),
            kind: kind.clone(),
            tensor_id: TensorId(view.tensor_id),
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
        };
        match self.grain {
            Grain::Launch => self.by_launch.push(row),
            Grain::Instruction => self.by_instruction.push(PcCellPart {
                kernel_id: row.kernel_id,
                function_id: FunctionId(function_id),
                pc: Pc(pc),
                kind: row.kind,
                tensor_id: row.tensor_id,
                cell_row: row.cell_row,
                cell_column: row.cell_column,
                touches: row.touches,
                requests: row.requests,
                sectors: row.sectors,
            }),
        }
    }
}

impl Analysis for Cells {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, instructions) = (Accesses::new(batch)?, Instructions::new(batch)?);
        let places = Places::new(batch)?;
        let kinds: Vec<Word> = instructions.kind.words.iter().map(|&word| Word(word.into())).collect();
        for row in 0..batch.num_rows() {
            let kernel_id = accesses.kernel_id[row];
            let key = match self.grain {
                Grain::Launch => (kernel_id, 0, 0),
                Grain::Instruction => (kernel_id, instructions.function_id[row], instructions.pc[row]),
            };
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
                self.add_share(&request, share, kind, (places.block[row], places.warp[row]));
            }
            self.shares = shares;
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        self.close();
    }

    fn bytes(&self) -> usize {
        self.crowds.bytes() + self.layers.iter().map(|layer| layer.counts.bytes()).sum::<usize>()
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        match self.grain {
            Grain::Launch => self.by_launch.take(least),
            Grain::Instruction => self.by_instruction.take(least),
        }
    }
}
