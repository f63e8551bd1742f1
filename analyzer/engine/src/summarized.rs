//! Launches whose accesses are counted on the GPU, or stand in an earlier launch of their kind: their rows of
//! `pc_tensor_part`.
//!
//! A row of `access_summary` knows the lowest and the highest address in one block of memory. If both belong to one
//! target, so does the row. If they belong to several tensors of one storage, the launch's rows of `memory_access`
//! share it among them. A launch that refers to another has that launch's rows, at the addresses of its own parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::memory::shares;
use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use stallmap_schema::id::{AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};
use stallmap_schema::table::TableRow as _;

use super::derived::{OpenWord, PcTensorPart};
use super::index::{TensorIndex, column};
use super::parameters::LaunchParameters;
use super::resolve::{AddressResolver, AddressTarget};
use super::summary::{self, CountedRange, LaunchRowRanges, SummaryCounts, SummaryInstruction, SummaryPieces};
use stallmap_tables::plain;
use stallmap_tables::words::InternedWords;

/// The columns of `launch` that are needed, in the order of the table.
pub(super) const LAUNCH: [&str; 2] = ["kernel_id", "accesses_of"];

/// Evidence of a launch's own accesses.
pub(super) const OBSERVED: &str = "observed";
/// Evidence of accesses of the launch that another refers to.
const MODEL_LAUNCH: &str = "model launch";

/// Launches without accesses of their own in `memory_access`, or with a part of them only.
#[derive(Debug, Default)]
pub(super) struct SummarizedLaunches {
    /// Each with the launch that has its accesses: itself, or another.
    launches: BTreeMap<u64, u64>,
    words: InternedWords,
    /// Rows of `access_summary`, and the range of each launch.
    counted: Vec<CountedRange>,
    ranges: LaunchRowRanges,
    /// Rows of `memory_access` of some launches, summed by target.
    pieces: BTreeMap<u64, Vec<CountedRange>>,
    parameters: LaunchParameters,
}

impl SummarizedLaunches {
    /// From rows of `access_summary` and `launch`. None if no launch is summarized.
    pub(super) fn new(summary: &RecordBatch, launch: &RecordBatch) -> Result<Option<Self>> {
        let mut words = InternedWords::default();
        let (counted, ranges) = summary::read(summary, &mut words)?;
        let kernels = column::<UInt64Type>(launch, "kernel_id")?;
        let models = column::<UInt64Type>(launch, "accesses_of")?;
        let rows = (0..launch.num_rows()).filter(|&row| models.is_valid(row));
        let refers: BTreeMap<u64, u64> = rows.map(|row| (kernels.value(row), models.value(row))).collect();
        // A launch that refers itself stands for no other.
        let is_model = |model: &u64| !refers.contains_key(model);
        let mut launches: BTreeMap<u64, u64> =
            refers.iter().filter(|(_, model)| is_model(model)).map(|(&of, &model)| (of, model)).collect();
        launches.extend(ranges.keys().map(|&kernel_id| (kernel_id, kernel_id)));
        let summarized = Self { launches, words, counted, ranges, ..Self::default() };
        Ok((!summarized.launches.is_empty()).then_some(summarized))
    }

    /// True if its rows come from here, rather than from `memory_access`.
    pub(super) fn holds(&self, kernel_id: u64) -> bool {
        self.launches.contains_key(&kernel_id)
    }

    /// True if a launch refers to another.
    pub(super) fn has_models(&self) -> bool {
        self.launches.iter().any(|(launch, model)| launch != model)
    }

    /// Reads the parameters of launches that refer to others, and of these.
    pub(super) fn read_parameters(&mut self, batch: &RecordBatch) -> Result<()> {
        let pairs = self.launches.iter().filter(|(launch, model)| launch != model);
        let wanted: BTreeSet<u64> = pairs.flat_map(|(&launch, &model)| [launch, model]).collect();
        self.parameters = LaunchParameters::read(batch, |kernel_id| wanted.contains(&kernel_id))?;
        Ok(())
    }

    /// The launches whose rows in `memory_access` are needed: those with a row of several tensors, and those that
    /// others refer to and that have nothing better.
    pub(super) fn needed(&self, resolver: &mut AddressResolver) -> BTreeSet<u64> {
        let bare = self.launches.values().filter(|model| !self.ranges.contains_key(model)).copied();
        let mut needed: BTreeSet<u64> = bare.collect();
        for (&kernel_id, range) in &self.ranges {
            resolver.move_to(kernel_id);
            let rows = self.counted.get(range.clone()).unwrap_or_default();
            if rows.iter().any(|row| matches!(target(resolver, row, 0), ResolvedRow::Several(_))) {
                needed.insert(kernel_id);
            }
        }
        needed
    }

    /// Adds rows of `memory_access`.
    pub(super) fn add_rows(
        &mut self,
        pieces: &mut SummaryPieces,
        batch: &RecordBatch,
        needed: &BTreeSet<u64>,
    ) -> Result<()> {
        pieces.add(batch, &mut self.words, |kernel_id| needed.contains(&kernel_id))
    }

    /// Ends the rows of `memory_access`, and finds the parameters that point to the memory of model launches.
    pub(super) fn finish(&mut self, pieces: SummaryPieces, resolver: &mut AddressResolver) {
        self.pieces = pieces.finish();
        let pairs = self.launches.iter().filter(|(launch, model)| launch != model);
        let models: BTreeSet<u64> = pairs.map(|(_, &model)| model).collect();
        for model in models {
            resolver.move_to(model);
            let range = self.ranges.get(&model).cloned().unwrap_or_default();
            let own = self.counted.get_mut(range).into_iter().flatten();
            for row in own.chain(self.pieces.get_mut(&model).into_iter().flatten()) {
                let block = resolver.block(row.low).filter(|_| row.is_global);
                row.word = block.and_then(|block| self.parameters.nearest(model, block, row.low));
            }
        }
    }

    /// The most rows that it can have.
    pub(super) fn row_count(&self) -> usize {
        let count = |model| self.ranges.get(model).map_or(0, ExactSizeIterator::len);
        self.launches.values().map(count).fold(0, usize::saturating_add)
    }

    /// The rows of one launch.
    fn parts(
        &self,
        launch: u64,
        model: u64,
        resolver: &mut AddressResolver,
        out: &mut Vec<(CountedRange, AddressTarget)>,
    ) {
        resolver.move_to(launch);
        let pieces = self.pieces.get(&model).map_or(&[][..], Vec::as_slice);
        let Some(range) = self.ranges.get(&model).cloned() else {
            for piece in pieces {
                let distance = self.distance(launch, model, piece, resolver);
                out.push((*piece, piece_target(resolver, piece, distance)));
            }
            return;
        };
        for row in self.counted.get(range).unwrap_or_default() {
            let found = match self.distance(launch, model, row, resolver) {
                Some(distance) => target(resolver, row, distance),
                None => ResolvedRow::One(first_target(resolver, row, None)),
            };
            match found {
                ResolvedRow::One(target) => out.push((*row, target)),
                ResolvedRow::Several(storage) => {
                    let met: Vec<&CountedRange> =
                        ranges_of(pieces, row.instruction).iter().filter(|piece| piece.meets(row)).collect();
                    if met.is_empty() {
                        out.push((*row, AddressTarget::Storage(storage)));
                    }
                    for (piece, counts) in met.iter().zip(split(row, &met)) {
                        let distance = self.distance(launch, model, piece, resolver);
                        out.push((CountedRange { counts, ..*row }, piece_target(resolver, piece, distance)));
                    }
                }
            }
        }
    }

    /// The distance from a model's memory to that of a launch, to which the resolver has moved.
    fn distance(
        &self,
        launch: u64,
        model: u64,
        row: &CountedRange,
        resolver: &mut AddressResolver,
    ) -> Option<u64> {
        if launch == model {
            return Some(0);
        }
        let leads = |distance: u64| resolver.block(row.low.wrapping_add(distance)).is_some();
        self.parameters.distance(model, launch, row.word, leads)
    }
}

/// The pieces of an instruction.
fn ranges_of(pieces: &[CountedRange], instruction: SummaryInstruction) -> &[CountedRange] {
    let begin = pieces.partition_point(|piece| piece.instruction < instruction);
    let end = pieces.partition_point(|piece| piece.instruction <= instruction);
    pieces.get(begin..end).unwrap_or_default()
}

/// The target of a row.
enum ResolvedRow {
    One(AddressTarget),
    /// Several targets in one storage.
    Several(u32),
}

/// The target of a row whose memory lies a distance away.
fn target(resolver: &mut AddressResolver, row: &CountedRange, distance: u64) -> ResolvedRow {
    let low = first_target(resolver, row, Some(distance));
    if !row.is_global {
        return ResolvedRow::One(low);
    }
    let last = resolver.target(row.last.wrapping_add(distance));
    match (resolver.storage(low), resolver.storage(last)) {
        (Some(storage), Some(other)) if storage == other && low != last => ResolvedRow::Several(storage),
        _ => ResolvedRow::One(low),
    }
}

/// The target of a piece, which is of one target in its own launch. In another, tensors can lie otherwise.
fn piece_target(
    resolver: &mut AddressResolver,
    piece: &CountedRange,
    distance: Option<u64>,
) -> AddressTarget {
    match distance.map(|distance| (distance, target(resolver, piece, distance))) {
        Some((1.., ResolvedRow::Several(storage))) => AddressTarget::Storage(storage),
        // A lane belongs to the target of its first byte: the last byte can lie in the next.
        Some((_, ResolvedRow::One(target))) => target,
        distance => first_target(resolver, piece, distance.map(|(distance, _)| distance)),
    }
}

/// The target of a row's lowest address. Unknown if its distance is.
fn first_target(resolver: &mut AddressResolver, row: &CountedRange, distance: Option<u64>) -> AddressTarget {
    match distance {
        _ if !row.is_global => AddressTarget::NotGlobal,
        Some(distance) => resolver.target(row.low.wrapping_add(distance)),
        None => AddressTarget::Unknown,
    }
}

/// The counts of a row for each of the pieces that it meets. If the pieces have all its lanes, they are exact.
fn split(row: &CountedRange, pieces: &[&CountedRange]) -> Vec<SummaryCounts> {
    let lanes = pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.lanes()));
    if lanes == row.lanes() {
        return pieces.iter().map(|piece| piece.counts).collect();
    }
    let mut counts = vec![SummaryCounts::default(); pieces.len()];
    for (measure, &total) in row.counts.iter().enumerate() {
        let weights: Vec<u64> =
            pieces.iter().filter_map(|piece| piece.counts.get(measure).copied()).collect();
        for (counts, share) in counts.iter_mut().zip(shares::share(total, &weights)) {
            if let Some(count) = counts.get_mut(measure) {
                *count = share;
            }
        }
    }
    counts
}

/// The rows of all summarized launches, as a partition of `pc_tensor_part`.
#[derive(Debug)]
pub(super) struct SummarizedRows {
    summarized: Arc<SummarizedLaunches>,
    index: Arc<TensorIndex>,
    schema: SchemaRef,
}

impl SummarizedRows {
    pub(super) fn new(summarized: Arc<SummarizedLaunches>, index: Arc<TensorIndex>) -> Self {
        Self { summarized, index, schema: plain(&PcTensorPart::TABLE.schema()) }
    }
}

impl PartitionStream for SummarizedRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = RemainingRows {
            resolver: AddressResolver::new(Arc::clone(&self.index)),
            summarized: Arc::clone(&self.summarized),
            schema: Arc::clone(&self.schema),
            next: Some(0),
            size: context.session_config().batch_size(),
        };
        let next = async |mut rows: RemainingRows| {
            // Between two batches, a query can be cancelled.
            tokio::task::yield_now().await;
            rows.batch().transpose().map(|batch| (batch, rows))
        };
        let stream = futures::stream::unfold(rows, next);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

/// The rows that remain.
struct RemainingRows {
    resolver: AddressResolver,
    summarized: Arc<SummarizedLaunches>,
    schema: SchemaRef,
    /// The lowest launch that they can be of.
    next: Option<u64>,
    size: usize,
}

impl RemainingRows {
    /// The next rows: some complete launches. None after the last.
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let (mut builder, mut count) =
            (<PcTensorPart as stallmap_schema::table::TableRow>::Builder::default(), 0);
        let mut parts = Vec::new();
        while count < self.size {
            let Some(next) = self.next else { break };
            let Some((&launch, &model)) = self.summarized.launches.range(next..).next() else { break };
            self.next = launch.checked_add(1);
            self.summarized.parts(launch, model, &mut self.resolver, &mut parts);
            count += parts.len();
            let evidence = if launch == model { OBSERVED } else { MODEL_LAUNCH };
            for (counted, target) in parts.drain(..) {
                self.row(launch, &counted, target, evidence).append(&mut builder);
            }
        }
        if count == 0 {
            return Ok(None);
        }
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), PcTensorPart::finish(&mut builder))?))
    }

    fn row(
        &self,
        launch: u64,
        counted: &CountedRange,
        target: AddressTarget,
        evidence: &str,
    ) -> PcTensorPart {
        let (storage, tensor, allocation) = AddressResolver::ids(self.resolver.index(), target);
        let instruction = counted.instruction;
        let [request_count, lane_count, sectors, unique_bytes, ideal_sectors] = counted.counts;
        PcTensorPart {
            kernel_id: KernelId(launch),
            function_id: FunctionId(instruction.function_id),
            pc: Pc(instruction.pc),
            kind: self.summarized.words.word(instruction.kind),
            space: self.summarized.words.word(instruction.space),
            target: OpenWord(target.text().into()),
            evidence: OpenWord(evidence.into()),
            storage_id: storage.map(StorageId),
            tensor_id: tensor.map(TensorId),
            allocation_id: allocation.map(AllocationId),
            request_count,
            lane_count,
            sectors,
            unique_bytes,
            ideal_sectors,
        }
    }
}
