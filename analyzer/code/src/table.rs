//! The tables of machine code in a schema.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::ScalarValue;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::stream;
use rayon::prelude::*;
use stallmap_schema::id::FunctionId;
use stallmap_schema::table::{TableDef, TableRow as _};

use super::derived::{
    BarrierStep, BasicBlock, BasicBlockEdge, FunctionCode, Instruction, PointerUse, ProducerCandidate,
    SharedFill, SignalWork, TensorMapUse,
};
use super::rows::{self, CodeScan};
use super::{AnalyzedSection, CaptureCode, SectionCode};
use stallmap_tables::provider::{DerivedRows, DerivedScan, DerivedTable, RowCount};

/// Which of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeTableKind {
    /// `function_code`.
    Function,
    /// `instruction`.
    Instruction,
    /// `basic_block`.
    Block,
    /// `basic_block_edge`.
    Edge,
    /// `producer_candidate`.
    Candidate,
    /// `tensor_map_use`.
    TensorMap,
    /// `pointer_use`.
    Pointer,
    /// `signal_work`.
    Signal,
    /// `shared_fill`.
    Fill,
    /// `barrier_step`.
    BarrierStep,
}

impl CodeTableKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Function,
        Self::Instruction,
        Self::Block,
        Self::Edge,
        Self::Candidate,
        Self::TensorMap,
        Self::Pointer,
        Self::Signal,
        Self::Fill,
        Self::BarrierStep,
    ];

    /// Its declaration.
    pub const fn table(self) -> TableDef {
        match self {
            Self::Function => FunctionCode::TABLE,
            Self::Instruction => Instruction::TABLE,
            Self::Block => BasicBlock::TABLE,
            Self::Edge => BasicBlockEdge::TABLE,
            Self::Candidate => ProducerCandidate::TABLE,
            Self::TensorMap => TensorMapUse::TABLE,
            Self::Pointer => PointerUse::TABLE,
            Self::Signal => SignalWork::TABLE,
            Self::Fill => SharedFill::TABLE,
            Self::BarrierStep => BarrierStep::TABLE,
        }
    }

    fn of_section(self, section: &SectionCode, asked: &CodeScan) -> Result<RecordBatch> {
        match self {
            // Its rows are not by section: see `CodeRows::batches`.
            Self::Function => Ok(RecordBatch::new_empty(Arc::clone(&asked.schema))),
            Self::Instruction => rows::instructions(section, asked),
            Self::Block => rows::blocks(section, asked),
            Self::Edge => rows::edges(section, asked),
            Self::Candidate => rows::candidates(section, asked),
            Self::TensorMap => rows::tensor_maps(section, asked),
            Self::Pointer => rows::pointers(section, asked),
            Self::Signal => rows::signals(section, asked),
            Self::Fill => rows::fills(section, asked),
            Self::BarrierStep => rows::barrier_steps(section, asked),
        }
    }
}

/// The rows of one of the tables over a capture's code.
#[derive(Debug)]
pub struct CodeRows {
    code: Arc<CaptureCode>,
    kind: CodeTableKind,
}

/// The tables over a capture's code.
pub fn tables(code: &Arc<CaptureCode>) -> impl Iterator<Item = DerivedTable> {
    CodeTableKind::ALL.into_iter().map(|kind| table(code, kind))
}

/// One of them.
pub fn table(code: &Arc<CaptureCode>, kind: CodeTableKind) -> DerivedTable {
    DerivedTable::new(Arc::new(CodeRows { code: Arc::clone(code), kind }))
}

impl CodeRows {
    /// The code.
    pub fn code(&self) -> &Arc<CaptureCode> {
        &self.code
    }

    /// All rows, by section.
    fn batches(&self, analyzed: &AnalyzedSection, asked: &CodeScan) -> Result<Vec<RecordBatch>> {
        if self.kind == CodeTableKind::Function {
            return Ok(vec![rows::functions(analyzed, asked)?]);
        }
        let sections = analyzed.sections.par_iter().filter(|section| asked.wants_section(section));
        sections.map(|section| self.kind.of_section(section, asked)).collect()
    }
}

#[async_trait]
impl DerivedRows for CodeRows {
    fn table(&self) -> TableDef {
        self.kind.table()
    }

    fn pushdown(&self, filter: &Expr) -> TableProviderFilterPushDown {
        match functions_of(filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        }
    }

    /// Known when the code is analyzed.
    fn row_count(&self) -> RowCount {
        RowCount::Later
    }

    async fn plan(&self, scan: DerivedScan<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let analyzed =
            self.code.analyzed().await.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let columns = scan.columns();
        let schema = Arc::new(scan.schema.project(&columns)?);
        let functions = scan.filters.iter().find_map(functions_of);
        let asked = CodeScan { columns, schema: Arc::clone(&schema), functions };
        if self.kind == CodeTableKind::Instruction {
            // The one table too large to be there at once.
            let rows = Arc::new(InstructionRows { analyzed, asked }) as Arc<dyn PartitionStream>;
            return Ok(Arc::new(StreamingTableExec::try_new(schema, vec![rows], None, [], false, None)?));
        }
        let batches = self.batches(&analyzed, &asked)?;
        Ok(MemorySourceConfig::try_new_exec(&[batches], schema, None)?)
    }
}

/// The functions that a filter selects. `None` if the filter concerns something else.
fn functions_of(filter: &Expr) -> Option<Vec<FunctionId>> {
    let is_function = |expr: &Expr| matches!(expr, Expr::Column(column) if column.name == "function_id");
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if is_function(left) => {
            Some(vec![function(right)?])
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if is_function(right) => {
            Some(vec![function(left)?])
        }
        Expr::InList(list) if is_function(&list.expr) && !list.negated => {
            list.list.iter().map(function).collect()
        }
        _ => None,
    }
}

fn function(literal: &Expr) -> Option<FunctionId> {
    match literal {
        Expr::Literal(ScalarValue::UInt64(Some(id)), _) => Some(FunctionId(*id)),
        _ => None,
    }
}

/// The rows of `instruction`, generated section by section.
#[derive(Debug)]
struct InstructionRows {
    analyzed: Arc<AnalyzedSection>,
    asked: CodeScan,
}

impl PartitionStream for InstructionRows {
    fn schema(&self) -> &SchemaRef {
        &self.asked.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (analyzed, asked) = (Arc::clone(&self.analyzed), self.asked.clone());
        let schema = Arc::clone(&asked.schema);
        let batches = (0..analyzed.sections.len()).filter_map(move |place| {
            let section = analyzed.sections.get(place).filter(|section| asked.wants_section(section))?;
            Some(CodeTableKind::Instruction.of_section(section, &asked))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)))
    }
}
