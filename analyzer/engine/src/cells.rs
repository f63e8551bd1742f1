//! Heat maps of tensors: accesses to each bin.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::HashMap;
use datafusion::error::Result;
use stallmap_schema::id::{FunctionId, KernelId, Pc, TensorId};

use super::access::{Accesses, Instructions, Places};
use super::analyses::Asked;
use super::analysis::{Analysis, Ready};
use super::derived::{LaunchCellPart, PcCellPart, Word};
use super::distinct::{Crowd, Distinct};
use super::grid::Grid;
use super::request::{Request, SECTOR_BYTES};
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
/// Row and column. `None` for bytes outside the tensor's elements.
type Place = Option<(u32, u32)>;

/// Aggregates accesses by bin.
pub(super) struct Cells {
    resolver: Resolver,
    asked: Arc<Asked>,
    grain: Grain,
    grids: HashMap<u32, Grid>,
    key: Option<Key>,
    /// By view and kind, in order of appearance.
    layers: Vec<Layer>,
    layer_places: HashMap<(u32, Word), usize>,
    /// Distinct blocks and warps of each layer's bins.
    crowds: Distinct<(usize, Place)>,
    shares: Vec<Share>,
    touched: Vec<(Place, u64)>,
    by_launch: Ready<LaunchCellPart>,
    by_instruction: Ready<PcCellPart>,
}

/// One tensor's accesses of one kind.
struct Layer {
    view: u32,
    kind: Word,
    cells: HashMap<Place, Cell>,
}

#[derive(Default)]
struct Cell {
    touches: u64,
    requests: u64,
    sectors: u64,
    /// The block and warp of the last request: its neighbours are mostly of the same.
    last: Option<(u64, u16)>,
}

impl Cells {
    pub(super) fn new(resolver: Resolver, asked: Arc<Asked>, grain: Grain) -> Self {
        Self {
            resolver,
            asked,
            grain,
            grids: HashMap::new(),
            key: None,
            layers: Vec::new(),
            layer_places: HashMap::new(),
            crowds: Distinct::default(),
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
        let grid = self.grids.entry(place).or_insert_with(|| Grid::new(view));
        self.touched.clear();
        for (lane, address) in request.addresses() {
            if share.lane_mask >> lane & 1 == 1 {
                for address in elements(address, request.access_bytes, view.low, view.element_bytes()) {
                    self.touched.push((grid.cell(view, address), address / SECTOR_BYTES));
                }
            } else if view.low <= address && address < view.high {
                // Its neighbours in the warp access the tensor. This lane falls between its elements.
                self.touched.push((None, address / SECTOR_BYTES));
            }
        }
        self.touched.sort_unstable();
        let next = self.layers.len();
        let layer = *self.layer_places.entry((place, kind.clone())).or_insert(next);
        if layer == next {
            self.layers.push(Layer { view: place, kind: kind.clone(), cells: HashMap::new() });
        }
        self.count(layer, (block, warp));
    }

    /// Adds the accesses of one request to the bins of a layer.
    fn count(&mut self, layer: usize, (block, warp): (u64, u16)) {
        let Some(Layer { cells, .. }) = self.layers.get_mut(layer) else { return };
        for touches in self.touched.chunk_by(|(one, _), (other, _)| one == other) {
            let Some(&(place, _)) = touches.first() else { continue };
            let cell = cells.entry(place).or_default();
            cell.touches += touches.len() as u64;
            cell.requests += 1;
            cell.sectors += touches.chunk_by(PartialEq::eq).count() as u64;
            if self.grain == Grain::Launch && cell.last != Some((block, warp)) {
                cell.last = Some((block, warp));
                self.crowds.add((layer, place), block, warp);
            }
        }
    }

    /// Ends the open launch or instruction.
    fn close(&mut self) {
        let Some(key) = self.key.take() else { return };
        let mut layers = std::mem::take(&mut self.layers);
        self.layer_places.clear();
        let (crowds, block_rate) = self.crowds.count();
        for (number, layer) in layers.iter_mut().enumerate() {
            let mut cells: Vec<(Place, Cell)> = layer.cells.drain().collect();
            cells.sort_unstable_by_key(|&(place, _)| place);
            for (place, cell) in cells {
                let crowd = crowds.get(&(number, place)).copied().unwrap_or_default();
                self.push(key, layer, (place, &cell), (crowd, block_rate));
            }
        }
    }

    fn push(
        &mut self,
        (kernel_id, function_id, pc): Key,
        layer: &Layer,
        (place, cell): (Place, &Cell),
        (crowd, block_rate): (Crowd, f64),
    ) {
        let index = self.resolver.index();
        let (Some(view), Some(grid)) = (index.views.get(layer.view as usize), self.grids.get(&layer.view))
        else {
            return;
        };
        let row = LaunchCellPart {
            kernel_id: KernelId(kernel_id),
            kind: layer.kind.clone(),
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

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        match self.grain {
            Grain::Launch => self.by_launch.take(least),
            Grain::Instruction => self.by_instruction.take(least),
        }
    }
}

/// One address in each element, counted from `low`, that an access of some bytes touches.
fn elements(address: u64, bytes: u64, low: u64, element_bytes: u64) -> impl Iterator<Item = u64> {
    let first = address.saturating_sub(low) / element_bytes.max(1);
    let last = address.saturating_add(bytes.max(1) - 1).saturating_sub(low) / element_bytes.max(1);
    (first..=last).map(move |element| low.saturating_add(element.saturating_mul(element_bytes)).max(address))
}
