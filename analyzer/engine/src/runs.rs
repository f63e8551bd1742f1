//! Accesses of one instruction of one launch, summed by target: the rows of `pc_tensor_part`.
//!
//! Rows of one instruction are neighbours in a capture: one sum is open at a time and nothing is hashed. If they are
//! not neighbours, each run has one row, and the view `pc_tensor` adds them up.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use stallmap_schema::id::{AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};
use stallmap_schema::table::Row as _;

use super::access::{Accesses, Instructions};
use super::derived::{PcTensorPart, Word};
use super::request::{Request, SECTOR_BYTES};
use super::resolve::{Resolver, Share, Target};
use super::summarized::{OBSERVED, Summarized};

/// Turns batches of `memory_access` into rows of `pc_tensor_part`.
pub(super) struct Runs {
    resolver: Resolver,
    /// The output columns, by position in the table.
    columns: Vec<usize>,
    schema: SchemaRef,
    measures: bool,
    /// Every value seen, [`Target::WORDS`] first.
    words: Vec<Arc<str>>,
    observed: Arc<str>,
    /// Launches whose rows come from elsewhere.
    summarized: Option<Arc<Summarized>>,
    key: Option<Key>,
    sums: Vec<Sum>,
    shares: Vec<Share>,
    done: <PcTensorPart as stallmap_schema::table::Row>::Builder,
    done_count: usize,
}

/// One instruction of one launch.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    kernel_id: u64,
    function_id: u64,
    pc: u32,
    /// Positions in [`Runs::words`].
    kind: usize,
    space: usize,
}

struct Sum {
    target: Target,
    request_count: u64,
    lane_count: u64,
    sectors: u64,
    unique_bytes: u64,
    ideal_sectors: u64,
}

impl Runs {
    pub(super) fn new(
        resolver: Resolver,
        schema: SchemaRef,
        columns: Vec<usize>,
        summarized: Option<Arc<Summarized>>,
    ) -> Self {
        let wants = |name: &str| schema.field_with_name(name).is_ok();
        Self {
            measures: ["sectors", "unique_bytes", "ideal_sectors"].into_iter().any(wants),
            resolver,
            columns,
            schema,
            words: Target::WORDS.map(Arc::from).into(),
            observed: OBSERVED.into(),
            summarized,
            key: None,
            sums: Vec::new(),
            shares: Vec::new(),
            done: <PcTensorPart as stallmap_schema::table::Row>::Builder::default(),
            done_count: 0,
        }
    }

    /// Adds the accesses of a batch.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let accesses = Accesses::new(batch)?;
        let instructions = Instructions::new(batch)?;
        let kinds: Vec<usize> = instructions.kind.words.iter().map(|word| self.intern(word)).collect();
        let spaces: Vec<usize> = instructions.space.words.iter().map(|word| self.intern(word)).collect();
        for row in 0..batch.num_rows() {
            if self.is_elsewhere(accesses.kernel_id[row]) {
                continue;
            }
            let key = Key {
                kernel_id: accesses.kernel_id[row],
                function_id: instructions.function_id[row],
                pc: instructions.pc[row],
                kind: kinds.get(instructions.kind.code(row)).copied().unwrap_or(0),
                space: spaces.get(instructions.space.code(row)).copied().unwrap_or(0),
            };
            if self.key != Some(key) {
                self.close();
                self.key = Some(key);
                self.resolver.move_to(key.kernel_id);
            }
            self.add_request(&accesses.request(row), accesses.is_global(row));
        }
        Ok(())
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

    fn word(&self, place: usize) -> Word {
        Word(self.words.get(place).map_or_else(|| "".into(), Arc::clone))
    }

    /// Closed rows that wait to be taken.
    pub(super) fn waiting(&self) -> usize {
        self.done_count
    }

    /// The closed rows.
    pub(super) fn take(&mut self) -> Result<RecordBatch> {
        self.done_count = 0;
        let columns = PcTensorPart::finish(&mut self.done);
        let asked = self.columns.iter().filter_map(|&column| columns.get(column).cloned()).collect();
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), asked)?)
    }

    /// Ends the open run.
    pub(super) fn close(&mut self) {
        let Some(key) = self.key.take() else { return };
        for sum in std::mem::take(&mut self.sums) {
            let (storage, tensor, allocation) = Resolver::ids(self.resolver.index(), sum.target);
            let part = PcTensorPart {
                kernel_id: KernelId(key.kernel_id),
                function_id: FunctionId(key.function_id),
                pc: Pc(key.pc),
                kind: self.word(key.kind),
                space: self.word(key.space),
                target: self.word(sum.target.word().into()),
                evidence: Word(Arc::clone(&self.observed)),
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

    #[inline]
    fn add_request(&mut self, request: &Request<'_>, is_global: bool) {
        if is_global {
            self.resolver.resolve(request, &mut self.shares);
        } else {
            self.shares.clear();
            self.shares.push(Share { target: Target::NotGlobal, lane_mask: request.lane_mask });
        }
        for share in &self.shares {
            let sum = open(&mut self.sums, share.target);
            sum.request_count += 1;
            sum.lane_count += u64::from(share.lane_mask.count_ones());
            if self.measures {
                let touched = request.touched_in(share.lane_mask);
                sum.sectors += touched.sectors;
                sum.unique_bytes += touched.unique_bytes;
                sum.ideal_sectors += touched.unique_bytes.div_ceil(SECTOR_BYTES);
            }
        }
    }
}

/// The open sum of a target: few are open at a time.
#[inline]
fn open(sums: &mut Vec<Sum>, target: Target) -> &mut Sum {
    let place = sums.iter().position(|sum| sum.target == target).unwrap_or_else(|| {
        sums.push(Sum {
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
