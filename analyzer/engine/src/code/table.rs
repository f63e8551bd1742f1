//! The tables of machine code in a schema.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::TableProvider;
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
    AccessPointerUse, BarrierStep, BasicBlock, BasicBlockEdge, FunctionCode, Instruction, PointerArrayUse,
    PointerStoreUse, PointerUse, ProducerCandidate, SharedFill, SignalWork, TensorMapUse,
};
use super::rows::{self, CodeScan};
use super::{AnalyzedSection, CaptureCode, SectionCode};
use stallmap_tables::provider::{DerivedRows, DerivedScan, DerivedTable, RowCount};

/// The rows of a section.
type SectionRows = fn(&SectionCode, &CodeScan) -> Result<RecordBatch>;

/// The tables over a capture's code, each with its rows by section.
const TABLES: [(TableDef, SectionRows); 13] = [
    // Its rows are not by section: see `CodeRows::batches`.
    (FunctionCode::TABLE, |_, asked| Ok(RecordBatch::new_empty(Arc::clone(&asked.schema)))),
    (Instruction::TABLE, rows::instructions),
    (BasicBlock::TABLE, rows::blocks),
    (BasicBlockEdge::TABLE, rows::edges),
    (ProducerCandidate::TABLE, rows::candidates),
    (TensorMapUse::TABLE, rows::tensor_maps),
    (PointerUse::TABLE, rows::pointers),
    (PointerArrayUse::TABLE, rows::pointer_arrays),
    (PointerStoreUse::TABLE, rows::pointer_stores),
    (AccessPointerUse::TABLE, rows::access_pointers),
    (SignalWork::TABLE, rows::signals),
    (SharedFill::TABLE, rows::fills),
    (BarrierStep::TABLE, rows::barrier_steps),
];

/// The rows of one of them.
#[derive(Debug)]
pub struct CodeRows {
    code: Arc<CaptureCode>,
    table: TableDef,
    rows: SectionRows,
}

/// The tables over a capture's code.
pub fn tables(code: &Arc<CaptureCode>) -> impl Iterator<Item = DerivedTable> {
    let rows = |(table, rows)| CodeRows { code: Arc::clone(code), table, rows };
    TABLES.into_iter().map(move |table| DerivedTable::new(Arc::new(rows(table))))
}

/// The tables `barrier_step` and `access_pointer_use` over a capture's code.
pub fn access_facts(code: &Arc<CaptureCode>) -> [Arc<dyn TableProvider>; 2] {
    let table = |table, rows: SectionRows| -> Arc<dyn TableProvider> {
        Arc::new(DerivedTable::new(Arc::new(CodeRows { code: Arc::clone(code), table, rows })))
    };
    [table(BarrierStep::TABLE, rows::barrier_steps), table(AccessPointerUse::TABLE, rows::access_pointers)]
}

/// True for the name of one of the tables.
pub fn is_table(name: &str) -> bool {
    TABLES.iter().any(|(table, _)| table.name == name)
}

impl CodeRows {
    /// The code.
    pub fn code(&self) -> &Arc<CaptureCode> {
        &self.code
    }

    /// All rows, by section.
    fn batches(&self, analyzed: &AnalyzedSection, asked: &CodeScan) -> Result<Vec<RecordBatch>> {
        if self.table.name == FunctionCode::TABLE.name {
            return Ok(vec![rows::functions(analyzed, asked)?]);
        }
        let sections = analyzed.sections.par_iter().filter(|section| asked.wants_section(section));
        sections.map(|section| (self.rows)(section, asked)).collect()
    }
}

#[async_trait]
impl DerivedRows for CodeRows {
    fn table(&self) -> TableDef {
        self.table
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
        if self.table.name == Instruction::TABLE.name {
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
        let batches = (0..analyzed.sections.len()).filter_map(move |index| {
            let section = analyzed.sections.get(index).filter(|section| asked.wants_section(section))?;
            Some(rows::instructions(section, &asked))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)))
    }
}
