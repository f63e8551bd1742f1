//! Requests of an instruction, by class.

use std::collections::BTreeMap;

use crate::memory::patterns::LaneDistances;
use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::id::{FunctionId, KernelId, Pc};
use stallmap_tables::words::InternedWords;

use super::access::{AccessBatch, InstructionColumns};
use super::analysis::{AccessAnalysis, ReadyRows};
use super::derived::{AccessClass, OpenWord};
use super::request::{SECTOR_BYTES, WarpRequest};
use super::shape::{AccessedShape, PatternClass};

/// An instruction of a launch.
type ClassKey = (u64, u64, u32);

/// Sums the shapes of requests.
#[derive(Default)]
pub(super) struct RequestClasses {
    key: Option<ClassKey>,
    kinds: InternedWords,
    spaces: InternedWords,
    patterns: LaneDistances,
    /// Sums of the open instruction, by kind, space and class.
    open: BTreeMap<(u8, u8, PatternClass), ClassSums>,
    ready: ReadyRows<AccessClass>,
}

/// Sums over requests.
#[derive(Default)]
struct ClassSums {
    access_bytes: u8,
    requests: u64,
    lanes: u64,
    sectors: u64,
    lines: u64,
    unique_bytes: u64,
    ideal_sectors: u64,
    misaligned: u64,
}

impl ClassSums {
    fn add(&mut self, request: &WarpRequest<'_>, shape: &AccessedShape) {
        self.access_bytes = self.access_bytes.max(u8::try_from(request.access_bytes).unwrap_or(u8::MAX));
        self.requests += 1;
        self.lanes += u64::from(shape.lanes);
        self.sectors += shape.sectors;
        self.lines += shape.lines;
        self.unique_bytes += shape.unique_bytes;
        self.ideal_sectors += shape.unique_bytes.div_ceil(SECTOR_BYTES);
        self.misaligned += u64::from(shape.is_misaligned);
    }
}

impl RequestClasses {
    /// Ends the open instruction.
    fn close(&mut self) {
        let Some((kernel_id, function_id, pc)) = self.key.take() else { return };
        for ((kind, space, class), sums) in std::mem::take(&mut self.open) {
            self.ready.push(AccessClass {
                kernel_id: KernelId(kernel_id),
                function_id: FunctionId(function_id),
                pc: Pc(pc),
                kind: self.kinds.word(kind),
                space: self.spaces.word(space),
                class: OpenWord(class.word().into()),
                access_bytes: sums.access_bytes,
                request_count: sums.requests,
                lane_count: sums.lanes,
                sectors: sums.sectors,
                line_count: sums.lines,
                unique_bytes: sums.unique_bytes,
                ideal_sectors: sums.ideal_sectors,
                misaligned_count: sums.misaligned,
            });
        }
    }
}

impl AccessAnalysis for RequestClasses {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, instructions) = (AccessBatch::new(batch)?, InstructionColumns::new(batch)?);
        let kinds = self.kinds.codes(instructions.kind.words.iter().copied());
        let spaces = self.spaces.codes(instructions.space.words.iter().copied());
        for row in 0..batch.num_rows() {
            let key = (accesses.kernel_id[row], instructions.function_id[row], instructions.pc[row]);
            if self.key != Some(key) {
                self.close();
                self.key = Some(key);
            }
            let request = accesses.request(row);
            let shape = self.patterns.shape(&request);
            let code = |codes: &[u8], code: usize| codes.get(code).copied().unwrap_or_default();
            let (kind, space) = (instructions.kind.code(row), instructions.space.code(row));
            let class = (code(&kinds, kind), code(&spaces, space), shape.class);
            self.open.entry(class).or_default().add(&request, &shape);
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        self.close();
    }

    fn bytes(&self) -> usize {
        0
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        self.ready.take(least)
    }
}
