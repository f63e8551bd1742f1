//! Accesses of one instruction of one launch, summed by target: the rows of `pc_tensor_part`.
//!
//! Rows of one instruction are neighbours in a capture: one sum is open at a time and nothing is hashed. If they are
//! not neighbours, each run has one row, and the view `pc_tensor` adds them up.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::memory::patterns::LaneDistances;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::error::{DataFusionError, Result};
use stallmap_schema::id::{AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};
use stallmap_schema::table::TableRow as _;

use super::access::{AccessBatch, InstructionColumns, RequestSpans, values};
use super::derived::{OpenWord, PcTensorPart};
use super::request::{SECTOR_BYTES, WarpRequest};
use super::resolve::{AddressResolver, AddressTarget, LaneShare};
use super::summarized::{OBSERVED, SummarizedLaunches};

/// Columns of `pc_tensor_part` that depend on the addresses of all lanes.
pub(super) const MEASURES: [&str; 3] = ["sectors", "unique_bytes", "ideal_sectors"];

/// Turns batches of `memory_access` into rows of `pc_tensor_part`.
///
/// If only lanes are counted, batches hold no lanes' addresses: the span of a request decides its target. Requests
/// that meet several targets, or the gaps of a view, are counted by [`TensorPartRows::add_lanes`], from a scan of these alone.
pub(super) struct TensorPartRows {
    resolver: AddressResolver,
    /// For requests that are counted later.
    late: AddressResolver,
    /// The output columns, by position in the table.
    columns: Vec<usize>,
    schema: SchemaRef,
    measures: bool,
    /// Every value seen, [`AddressTarget::WORDS`] first.
    words: Vec<Arc<str>>,
    observed: Arc<str>,
    /// Launches whose rows come from elsewhere.
    summarized: Option<Arc<SummarizedLaunches>>,
    open: Option<AccessRun>,
    /// Runs that wait for requests to be counted, and those behind them.
    closed: VecDeque<AccessRun>,
    /// The requests that closed runs wait for.
    missing: u64,
    shares: Vec<LaneShare>,
    patterns: LaneDistances,
    done: <PcTensorPart as stallmap_schema::table::TableRow>::Builder,
    done_count: usize,
}

/// Sums of adjacent accesses.
struct AccessRun {
    key: InstructionRunKey,
    sums: Vec<PartSum>,
    /// Requests that are still to be counted.
    missing: u64,
}

/// One instruction of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InstructionRunKey {
    kernel_id: u64,
    function_id: u64,
    pc: u32,
    /// Positions in [`TensorPartRows::words`].
    kind: usize,
    space: usize,
}

struct PartSum {
    target: AddressTarget,
    request_count: u64,
    lane_count: u64,
    sectors: u64,
    unique_bytes: u64,
    ideal_sectors: u64,
}

/// The instructions of the rows of a batch.
struct InstructionKeys<'a> {
    kernel_id: &'a [u64],
    instructions: InstructionColumns<'a>,
    /// Positions of their words in [`TensorPartRows::words`].
    kinds: Vec<usize>,
    spaces: Vec<usize>,
}

impl InstructionKeys<'_> {
    fn key(&self, row: usize) -> InstructionRunKey {
        let word = |known: &[usize], code: usize| known.get(code).copied().unwrap_or(0);
        InstructionRunKey {
            kernel_id: self.kernel_id[row],
            function_id: self.instructions.function_id[row],
            pc: self.instructions.pc[row],
            kind: word(&self.kinds, self.instructions.kind.code(row)),
            space: word(&self.spaces, self.instructions.space.code(row)),
        }
    }

    /// Past the rows of the same instruction.
    fn end(&self, row: usize) -> usize {
        let own = &self.instructions;
        let is_same = |other: &usize| {
            own.pc[*other] == own.pc[row]
                && self.kernel_id[*other] == self.kernel_id[row]
                && own.function_id[*other] == own.function_id[row]
                && own.kind.code(*other) == own.kind.code(row)
                && own.space.code(*other) == own.space.code(row)
        };
        row + 1 + (row + 1..self.kernel_id.len()).take_while(is_same).count()
    }
}

impl TensorPartRows {
    pub(super) fn new(
        resolver: AddressResolver,
        schema: SchemaRef,
        columns: Vec<usize>,
        summarized: Option<Arc<SummarizedLaunches>>,
    ) -> Self {
        Self {
            measures: measures(&schema),
            late: resolver.another(),
            resolver,
            columns,
            schema,
            words: AddressTarget::WORDS.map(Arc::from).into(),
            observed: OBSERVED.into(),
            summarized,
            open: None,
            closed: VecDeque::new(),
            missing: 0,
            shares: Vec::new(),
            patterns: LaneDistances::default(),
            done: <PcTensorPart as stallmap_schema::table::TableRow>::Builder::default(),
            done_count: 0,
        }
    }

    /// Adds the accesses of a batch.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = self.keys(batch)?;
        let accesses = self.measures.then(|| AccessBatch::new(batch)).transpose()?;
        let spans = if accesses.is_none() { Some(RequestSpans::new(batch)?) } else { None };
        let mut row = 0;
        while row < batch.num_rows() {
            let (key, rows) = (keys.key(row), row..keys.end(row));
            row = rows.end;
            if self.is_elsewhere(key.kernel_id) {
                continue;
            }
            if self.open.as_ref().is_none_or(|open| open.key != key) {
                self.close();
                self.resolver.move_to(key.kernel_id);
            }
            let mut run = self.open.take().unwrap_or(AccessRun { key, sums: Vec::new(), missing: 0 });
            match (&accesses, &spans) {
                (Some(accesses), _) => {
                    for row in rows {
                        let (request, is_global) = (accesses.request(row), accesses.is_global(row));
                        add_request(
                            &mut run,
                            &request,
                            is_global,
                            (&mut self.resolver, &mut self.shares, &mut self.patterns),
                            true,
                        );
                    }
                }
                (None, Some(spans)) => add_spans(&mut run, spans, rows, &mut self.resolver),
                (None, None) => {}
            }
            self.open = Some(run);
        }
        Ok(())
    }

    /// The requests that are to be counted by their lanes before rows can be taken.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// Counts such requests by their lanes, from a row of a batch on. Returns the row after the last that was needed.
    pub(super) fn add_lanes(&mut self, batch: &RecordBatch, mut row: usize) -> Result<usize> {
        let keys = self.keys(batch)?;
        let accesses = AccessBatch::new(batch)?;
        while row < batch.num_rows() && self.missing > 0 {
            let (key, request) = (keys.key(row), accesses.request(row));
            self.late.move_to(key.kernel_id);
            let is_counted = self.is_elsewhere(key.kernel_id)
                || !accesses.is_global(row)
                || self.late.whole(request.address, request.span_bytes).is_some();
            row += 1;
            if is_counted {
                continue;
            }
            let waiting = self.closed.iter_mut().find(|run| run.missing > 0).filter(|run| run.key == key);
            let Some(run) = waiting else { return Err(apart()) };
            add_request(run, &request, true, (&mut self.late, &mut self.shares, &mut self.patterns), false);
            run.missing -= 1;
            self.missing -= 1;
            if run.missing == 0 {
                self.release();
            }
        }
        Ok(row)
    }

    fn keys<'a>(&mut self, batch: &'a RecordBatch) -> Result<InstructionKeys<'a>> {
        let instructions = InstructionColumns::new(batch)?;
        let kinds = instructions.kind.words.iter().map(|word| self.intern(word)).collect();
        let spaces = instructions.space.words.iter().map(|word| self.intern(word)).collect();
        Ok(InstructionKeys {
            kernel_id: values::<UInt64Type>(batch, "kernel_id")?,
            instructions,
            kinds,
            spaces,
        })
    }

    /// True if a launch's rows come from elsewhere.
    #[inline]
    fn is_elsewhere(&self, kernel_id: u64) -> bool {
        self.summarized.as_ref().is_some_and(|summarized| summarized.holds(kernel_id))
    }

    fn intern(&mut self, word: &str) -> usize {
        self.words.iter().position(|known| known.as_ref() == word).unwrap_or_else(|| {
            self.words.push(word.into());
            self.words.len() - 1
        })
    }

    fn word(&self, place: usize) -> OpenWord {
        OpenWord(self.words.get(place).map_or_else(|| "".into(), Arc::clone))
    }

    /// Complete rows that wait to be taken.
    pub(super) fn waiting(&self) -> usize {
        self.done_count
    }

    /// The complete rows.
    pub(super) fn take(&mut self) -> Result<RecordBatch> {
        // A count of rows asks for no column.
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.done_count)));
        let columns = PcTensorPart::finish(&mut self.done);
        let asked = self.columns.iter().filter_map(|&column| columns.get(column).cloned()).collect();
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), asked, &options)?)
    }

    /// Ends the open run.
    pub(super) fn close(&mut self) {
        let Some(run) = self.open.take() else { return };
        self.missing += run.missing;
        self.closed.push_back(run);
        self.release();
    }

    /// Makes rows of the first closed runs, up to one that waits.
    fn release(&mut self) {
        while self.closed.front().is_some_and(|run| run.missing == 0)
            && let Some(run) = self.closed.pop_front()
        {
            run.sums.iter().for_each(|sum| self.push(run.key, sum));
        }
    }

    fn push(&mut self, key: InstructionRunKey, sum: &PartSum) {
        let (storage, tensor, allocation) = AddressResolver::ids(self.resolver.index(), sum.target);
        let part = PcTensorPart {
            kernel_id: KernelId(key.kernel_id),
            function_id: FunctionId(key.function_id),
            pc: Pc(key.pc),
            kind: self.word(key.kind),
            space: self.word(key.space),
            target: self.word(sum.target.word().into()),
            evidence: OpenWord(Arc::clone(&self.observed)),
            storage_id: storage.map(StorageId),
            tensor_id: tensor.map(TensorId),
            allocation_id: allocation.map(AllocationId),
            request_count: sum.request_count,
            lane_count: sum.lane_count,
            sectors: sum.sectors,
            unique_bytes: sum.unique_bytes,
            ideal_sectors: sum.ideal_sectors,
        };
        part.append(&mut self.done);
        self.done_count += 1;
    }
}

/// True if columns of `pc_tensor_part` depend on the addresses of all lanes.
pub(super) fn measures(schema: &SchemaRef) -> bool {
    MEASURES.iter().any(|name| schema.field_with_name(name).is_ok())
}

/// The error for two scans of the same accesses that differ.
fn apart() -> DataFusionError {
    DataFusionError::Internal("two scans of `memory_access` have different requests".to_owned())
}

/// Counts the requests of a run by their spans.
fn add_spans(
    run: &mut AccessRun,
    spans: &RequestSpans<'_>,
    rows: Range<usize>,
    resolver: &mut AddressResolver,
) {
    let lanes = |rows: Range<usize>| {
        spans.lane_mask[rows].iter().map(|mask| u64::from(mask.count_ones())).sum::<u64>()
    };
    if !spans.is_global(rows.start) {
        let sum = open(&mut run.sums, AddressTarget::NotGlobal);
        sum.request_count += rows.len() as u64;
        sum.lane_count += lanes(rows);
        return;
    }
    let (addresses, bytes) = (&spans.address[rows.clone()], &spans.span_bytes[rows.clone()]);
    let mut at = 0;
    while let Some(&address) = addresses.get(at) {
        let around = resolver.around(address);
        let own = around.map_or(0, |(_, low, high)| {
            let own = addresses[at..].iter().zip(&bytes[at..]);
            own.take_while(|(address, bytes)| low <= **address && address.saturating_add(**bytes) <= high)
                .count()
        });
        match around.filter(|_| own > 0) {
            Some((target, ..)) => {
                let sum = open(&mut run.sums, target);
                sum.request_count += own as u64;
                sum.lane_count += lanes(rows.start + at..rows.start + at + own);
            }
            None => run.missing += 1,
        }
        at += own.max(1);
    }
}

/// Counts a request by its lanes.
#[inline]
fn add_request(
    run: &mut AccessRun,
    request: &WarpRequest<'_>,
    is_global: bool,
    (resolver, shares, patterns): (&mut AddressResolver, &mut Vec<LaneShare>, &mut LaneDistances),
    measures: bool,
) {
    if is_global {
        resolver.resolve(request, shares);
    } else {
        shares.clear();
        shares.push(LaneShare { target: AddressTarget::NotGlobal, lane_mask: request.lane_mask });
    }
    for share in shares {
        let sum = open(&mut run.sums, share.target);
        sum.request_count += 1;
        sum.lane_count += u64::from(share.lane_mask.count_ones());
        if measures {
            let is_whole = share.lane_mask == request.lane_mask;
            let touched =
                if is_whole { patterns.touched(request) } else { request.touched_by(share.lane_mask) };
            sum.sectors += touched.sectors;
            sum.unique_bytes += touched.unique_bytes;
            sum.ideal_sectors += touched.unique_bytes.div_ceil(SECTOR_BYTES);
        }
    }
}

/// The open sum of a target: few are open at a time.
#[inline]
fn open(sums: &mut Vec<PartSum>, target: AddressTarget) -> &mut PartSum {
    let place = sums.iter().position(|sum| sum.target == target).unwrap_or_else(|| {
        sums.push(PartSum {
            target,
            request_count: 0,
            lane_count: 0,
            sectors: 0,
            unique_bytes: 0,
            ideal_sectors: 0,
        });
        sums.len() - 1
    });
    &mut sums[place]
}
