//! The tables that analyses compute, in a schema: the list of them, and the requests of a query.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::TableProvider as _;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::ExecutionPlan;
use stallmap_schema::table::{TableDef, TableRow as _};

use super::analysis::{AccessAnalysis, COLUMNS};
use super::analyze::AnalyzeExec;
use super::cells::{BinCells, CellGrain};
use super::classes::RequestClasses;
use super::copies::CaptureCopies;
use super::defects::CodeFacts;
use super::derived::{
    AccessClass, BlockFootprint, InstructionReuse, InstructionStride, LaunchCellPart, LoadRedundancy,
    PcCellPart, ReuseDistance, SectorSharing, TargetTouch,
};
use super::faults::FaultAnalysis;
use super::index::TensorIndex;
use super::life::MemoryLife;
use super::races::{RaceAnalysis, RaceScope};
use super::redundancy::RedundancyAnalysis;
use super::resolve::AddressResolver;
use super::reuse::{self, ReuseAnalysis};
use super::sharing::{self, SharingAnalysis};
use super::strides::StrideAnalysis;
use super::table::CaptureEngine;
use super::touch::TargetTouches;
use super::unwritten::UnwrittenAnalysis;
use super::values::{BundledMemory, ValueAnalysis};
use crate::fault_facts::FaultFacts;
use stallmap_tables::defects::{AddressFault, BlockConflict, SharedConflict, UnwrittenRead};
use stallmap_tables::plain;
use stallmap_tables::provider::{DerivedRows, DerivedScan, RowCount};
use stallmap_tables::values::AccessValue;
use tokio::sync::Mutex;

/// Which analysis: one for each table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnalysisKind {
    /// `launch_cell_part`.
    LaunchCells,
    /// `pc_cell_part`.
    PcCells,
    /// `target_touch`.
    Touches,
    /// `block_footprint`.
    BlockFootprints,
    /// `sector_sharing`.
    SectorSharing,
    /// `reuse_distance`.
    ReuseDistances,
    /// `instruction_reuse`.
    InstructionReuse,
    /// `load_redundancy`.
    LoadRedundancy,
    /// `access_class`.
    Classes,
    /// `instruction_stride`.
    Strides,
    /// `address_fault`.
    Faults,
    /// `unwritten_read`.
    Unwritten,
    /// `block_conflict`.
    BlockConflicts,
    /// `shared_conflict`.
    SharedConflicts,
    /// `access_value`.
    Values,
}

impl AnalysisKind {
    /// Every analysis.
    pub const ALL: [Self; 15] = [
        Self::LaunchCells,
        Self::PcCells,
        Self::Touches,
        Self::BlockFootprints,
        Self::SectorSharing,
        Self::ReuseDistances,
        Self::InstructionReuse,
        Self::LoadRedundancy,
        Self::Classes,
        Self::Strides,
        Self::Faults,
        Self::Unwritten,
        Self::BlockConflicts,
        Self::SharedConflicts,
        Self::Values,
    ];

    /// Analyses that search for wrong accesses.
    pub(super) const DEFECTS: [Self; 4] =
        [Self::Faults, Self::Unwritten, Self::BlockConflicts, Self::SharedConflicts];

    /// Its table.
    pub fn table(self) -> TableDef {
        match self {
            Self::LaunchCells => LaunchCellPart::TABLE,
            Self::PcCells => PcCellPart::TABLE,
            Self::Touches => TargetTouch::TABLE,
            Self::BlockFootprints => BlockFootprint::TABLE,
            Self::SectorSharing => SectorSharing::TABLE,
            Self::ReuseDistances => ReuseDistance::TABLE,
            Self::InstructionReuse => InstructionReuse::TABLE,
            Self::LoadRedundancy => LoadRedundancy::TABLE,
            Self::Classes => AccessClass::TABLE,
            Self::Strides => InstructionStride::TABLE,
            Self::Faults => AddressFault::TABLE,
            Self::Unwritten => UnwrittenRead::TABLE,
            Self::BlockConflicts => BlockConflict::TABLE,
            Self::SharedConflicts => SharedConflict::TABLE,
            Self::Values => AccessValue::TABLE,
        }
    }

    /// The table's schema, without docs.
    pub fn schema(self) -> SchemaRef {
        plain(&self.table().schema())
    }

    /// True if each launch is computed by itself.
    pub(super) fn is_by_launch(self) -> bool {
        self.grouped_by().contains(&"kernel_id")
    }

    /// Columns of accesses that its rows keep: an access counts only in rows with its values, so a filter on one of these
    /// may leave out accesses.
    pub(super) fn grouped_by(self) -> &'static [&'static str] {
        match self {
            Self::Touches | Self::Unwritten => &[],
            Self::Classes => &["kernel_id", "function_id", "pc", "kind", "space"],
            Self::Strides => &["kernel_id", "function_id", "pc"],
            _ => &["kernel_id"],
        }
    }

    /// True if its rows are few, and views read them together with those of the other such analyses.
    fn is_defect(self) -> bool {
        Self::DEFECTS.contains(&self)
    }

    /// True if it needs facts of the code.
    pub(super) fn reads_code(self) -> bool {
        matches!(self, Self::Faults | Self::SharedConflicts)
    }

    /// True if it resolves addresses to targets.
    pub(super) fn resolves(self) -> bool {
        matches!(
            self,
            Self::LaunchCells
                | Self::PcCells
                | Self::Touches
                | Self::Faults
                | Self::Unwritten
                | Self::BlockConflicts
                | Self::Values
        )
    }

    /// True if accesses to other tensors than those of a filter do not matter.
    fn takes_tensors(self) -> bool {
        self.resolves() && self != Self::Values
    }

    /// The analysis, with some bytes of memory for a launch.
    pub(super) fn start(
        self,
        resolver: AddressResolver,
        asked: &Arc<AnalysisScan>,
        room_bytes: usize,
    ) -> Box<dyn AccessAnalysis> {
        let asked = Arc::clone(asked);
        match self {
            Self::LaunchCells => Box::new(BinCells::new(resolver, asked, CellGrain::Launch, room_bytes)),
            Self::PcCells => Box::new(BinCells::new(resolver, asked, CellGrain::Instruction, room_bytes)),
            Self::Touches => Box::new(TargetTouches::new(resolver, asked, room_bytes)),
            Self::BlockFootprints => Box::new(SharingAnalysis::new(sharing::SharingGrain::Block, room_bytes)),
            Self::SectorSharing => Box::new(SharingAnalysis::new(sharing::SharingGrain::Sharing, room_bytes)),
            Self::ReuseDistances => Box::new(ReuseAnalysis::new(reuse::ReuseGrain::Launch, room_bytes)),
            Self::InstructionReuse => Box::new(ReuseAnalysis::new(
                reuse::ReuseGrain::Instruction(asked.multiprocessors),
                room_bytes,
            )),
            Self::LoadRedundancy => Box::new(RedundancyAnalysis::new(room_bytes)),
            Self::Classes => Box::new(RequestClasses::default()),
            Self::Strides => Box::new(StrideAnalysis::default()),
            Self::Faults => Box::new(FaultAnalysis::new(resolver, &asked)),
            Self::Unwritten => Box::new(UnwrittenAnalysis::new(resolver, asked, room_bytes)),
            Self::BlockConflicts => {
                Box::new(RaceAnalysis::new(RaceScope::Blocks(Box::new(resolver)), room_bytes))
            }
            Self::SharedConflicts => {
                Box::new(RaceAnalysis::new(RaceScope::Warps(Arc::clone(&asked.code)), room_bytes))
            }
            Self::Values => Box::new(ValueAnalysis::new(resolver, &asked)),
        }
    }
}

/// Columns and filters of a query that reduce the work of an analysis.
#[derive(Debug, Default)]
pub(super) struct AnalysisScan {
    /// The columns of the table that are read.
    columns: Vec<&'static str>,
    /// The views of requested tensors, as positions in the index. `None` for all.
    views: Option<BTreeSet<u32>>,
    /// Range of their elements.
    low: u64,
    high: u64,
    /// The launches during the lifetimes of their storages.
    kernels: Option<(u64, u64)>,
    /// Memcpys between launches, if the analysis needs them.
    pub(super) copies: CaptureCopies,
    /// Facts that decide whether accesses are wrong, if the analysis needs them.
    pub(super) faults: Arc<FaultFacts>,
    /// Facts of the code, if the analysis needs them.
    pub(super) code: Arc<CodeFacts>,
    /// Memory of bundled launches, if the analysis needs it.
    pub(super) bundles: Arc<BundledMemory>,
    /// Multiprocessors of the largest GPU, if the analysis needs them.
    pub(super) multiprocessors: u64,
    /// The turn of the launch, of all analyses of the capture, that takes much memory.
    pub(super) turn: Arc<Mutex<()>>,
}

impl AnalysisScan {
    /// From a query's filters.
    pub(super) fn new(filters: &[Expr], index: &TensorIndex) -> Self {
        let Some(tensors) = filters.iter().filter_map(tensors).reduce(|a, b| &a & &b) else {
            return Self::default();
        };
        let held = (0..).zip(&index.views).filter(|(_, view)| tensors.contains(&view.tensor_id));
        let (mut views, mut low, mut high) = (BTreeSet::new(), u64::MAX, 0);
        let mut storages = BTreeSet::new();
        for (place, view) in held {
            views.insert(place);
            storages.insert(view.storage);
            (low, high) = (low.min(view.view.low), high.max(view.view.high));
        }
        let kernels = kernels(index, &storages);
        Self { views: Some(views), low, high, kernels, ..Self::default() }
    }

    /// All columns of a table, with filters.
    pub(super) fn all(
        engine: &CaptureEngine,
        kind: AnalysisKind,
        filters: &[Expr],
        index: &TensorIndex,
    ) -> Result<Self> {
        let columns = kind.table().columns.iter().map(|column| column.name).collect();
        let mut asked = Self { columns, ..Self::new(filters, index) };
        asked.of_engine(engine, kind, index)?;
        Ok(asked)
    }

    /// Adds what an analysis needs of the capture.
    fn of_engine(&mut self, engine: &CaptureEngine, kind: AnalysisKind, index: &TensorIndex) -> Result<()> {
        if matches!(kind, AnalysisKind::Touches | AnalysisKind::Unwritten) {
            self.copies = engine.copies(index)?;
        }
        if matches!(kind, AnalysisKind::Faults | AnalysisKind::Unwritten) {
            self.faults = engine.fault_facts()?;
        }
        if kind.reads_code() {
            self.code = engine.code_facts();
        }
        if kind == AnalysisKind::Values {
            self.bundles = engine.bundles()?;
        }
        if kind == AnalysisKind::InstructionReuse {
            self.multiprocessors = engine.multiprocessors()?;
        }
        self.turn = engine.turn();
        Ok(())
    }

    /// True if a query reads one of these columns.
    pub(super) fn has_any(&self, columns: &[&str]) -> bool {
        columns.iter().any(|column| self.columns.contains(column))
    }

    /// The views of the requested tensors. None for all.
    pub(super) fn views(&self) -> Option<&BTreeSet<u32>> {
        self.views.as_ref()
    }

    /// True if everything is requested.
    pub(super) fn wants_all(&self) -> bool {
        self.views.is_none()
    }

    /// True if a view is requested.
    pub(super) fn wants(&self, view: u32) -> bool {
        self.views.as_ref().is_none_or(|views| views.contains(&view))
    }

    /// True if accesses to some bytes can matter.
    pub(super) fn wants_bytes(&self, address: u64, span_bytes: u64) -> bool {
        self.views.is_none() || (address < self.high && self.low < address.saturating_add(span_bytes.max(1)))
    }

    /// The same as a condition on the columns of `memory_access`, for skipping rows.
    pub(super) fn predicate(&self, schema: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        if self.views.is_none() {
            return Ok(None);
        }
        // No launch is between the largest number and 0.
        let (first, last) = self.kernels.unwrap_or((u64::MAX, 0));
        let compare = |name: &str, operator: Operator, value: u64| -> Result<Arc<dyn PhysicalExpr>> {
            binary(col(name, schema)?, operator, lit(value), schema)
        };
        let after = compare("kernel_id", Operator::GtEq, first)?;
        let before = compare("kernel_id", Operator::LtEq, last)?;
        let below = compare("address", Operator::Lt, self.high)?;
        let launches = binary(after, Operator::And, before, schema)?;
        Ok(Some(binary(launches, Operator::And, below, schema)?))
    }
}

/// The first and the last kernel_id of launches during the lifetimes of some storages.
fn kernels(index: &TensorIndex, storages: &BTreeSet<u32>) -> Option<(u64, u64)> {
    let lives: Vec<(usize, &MemoryLife)> = index
        .runs
        .iter()
        .enumerate()
        .flat_map(|(run, known)| {
            let held = (0..).zip(&known.storage_rows).filter(|(_, row)| storages.contains(row));
            held.map(move |(life, _)| (run, known.storages.get(life)))
        })
        .collect();
    let lives_at = |run: usize, time: u64| lives.iter().any(|&(of, life)| of == run && life.lives_at(time));
    let kernels = index.launches.iter().filter(|(_, launch)| lives_at(launch.run, launch.alive_at));
    kernels.map(|(&kernel_id, _)| kernel_id).fold(None, |range, kernel_id| {
        let (first, last) = range.unwrap_or((kernel_id, kernel_id));
        Some((first.min(kernel_id), last.max(kernel_id)))
    })
}

/// The tensor_ids that a filter allows, if it restricts them.
pub(super) fn tensors(filter: &Expr) -> Option<BTreeSet<u64>> {
    let is_tensor = |expr: &Expr| matches!(expr, Expr::Column(column) if column.name == "tensor_id");
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let literal = if is_tensor(left) { right } else { Some(left).filter(|_| is_tensor(right))? };
            Some([number(literal)?].into())
        }
        // The planner rewrites a short list to this form.
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            Some(&tensors(left)? | &tensors(right)?)
        }
        Expr::InList(InList { expr, list, negated: false }) if is_tensor(expr) => {
            list.iter().map(number).collect()
        }
        _ => None,
    }
}

fn number(literal: &Expr) -> Option<u64> {
    match literal {
        Expr::Literal(ScalarValue::UInt64(value), _) => *value,
        Expr::Literal(ScalarValue::Int64(value), _) => u64::try_from((*value)?).ok(),
        _ => None,
    }
}

/// The columns of `memory_access` for every analysis.
pub(super) fn input(access: &Schema) -> Result<Vec<usize>> {
    let columns: std::result::Result<_, _> = COLUMNS.iter().map(|name| access.index_of(name)).collect();
    Ok(columns?)
}

/// The rows of an analysis.
#[derive(Debug)]
pub struct AnalysisRows {
    engine: Arc<CaptureEngine>,
    kind: AnalysisKind,
}

impl AnalysisRows {
    /// The rows of a capture's engine.
    pub(super) fn new(engine: Arc<CaptureEngine>, kind: AnalysisKind) -> Self {
        Self { engine, kind }
    }

    /// The engine and the analysis.
    pub fn parts(&self) -> (&Arc<CaptureEngine>, AnalysisKind) {
        (&self.engine, self.kind)
    }
}

#[async_trait]
impl DerivedRows for AnalysisRows {
    fn table(&self) -> TableDef {
        self.kind.table()
    }

    fn pushdown(&self, _: &Expr) -> TableProviderFilterPushDown {
        TableProviderFilterPushDown::Inexact
    }

    fn row_count(&self) -> RowCount {
        let rows = self.engine.analyzed(self.kind);
        RowCount::Unknown.or(rows.map(|rows| rows.iter().map(RecordBatch::num_rows).sum()))
    }

    async fn plan(&self, scan: DerivedScan<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let DerivedScan { state, filters, .. } = scan;
        if self.kind.is_defect() && filters.is_empty() {
            self.engine.keep_defects(state).await?;
        }
        if let Some(rows) = self.engine.analyzed(self.kind) {
            return scan.over(rows);
        }
        if let Some(rows) = self.engine.bins(state, self.kind, filters).await? {
            return scan.over(&rows);
        }
        let columns = scan.columns();
        let index = if self.kind.resolves() { self.engine.index().await? } else { Arc::default() };
        let mut asked = if self.kind.takes_tensors() {
            AnalysisScan::new(filters, &index)
        } else {
            AnalysisScan::default()
        };
        let known = self.kind.table().columns;
        asked.columns = columns.iter().filter_map(|&at| known.get(at)).map(|column| column.name).collect();
        if self.kind.reads_code() {
            self.engine.read_code(state).await?;
        }
        asked.of_engine(&self.engine, self.kind, &index)?;
        let access = self.engine.access();
        let predicate = asked.predicate(&access.schema())?;
        let input = input(&access.schema())?;
        let inputs = if self.kind.is_by_launch() {
            access.scans_in_order(state, &input, predicate.as_ref())?
        } else {
            vec![access.scan_in_order(state, &input, predicate)?]
        };
        Ok(Arc::new(AnalyzeExec::new(inputs, index, self.kind, Arc::new(asked), columns)?))
    }
}
