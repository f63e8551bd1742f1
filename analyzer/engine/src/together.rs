//! Several analyses in one pass over the accesses: to decode these takes as long as an analysis.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider as _};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::Expr;
use datafusion::physical_optimizer::PhysicalOptimizerRule as _;
use datafusion::prelude::SessionContext;
use stallmap_tables::guard::GuardScans;
use stallmap_tables::tasks::is_out_of_memory;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use super::analyses::{self, AnalysisKind, AnalysisScan, tensors};
use super::analysis::{AccessAnalysis, LaunchJob};
use super::analyze::{RunningAnalysis, room};
use super::cells::{self, BinCells};
use super::exec;
use super::index::TensorIndex;
use super::resolve::AddressResolver;
use super::runs::TensorPartRows;
use super::sharing::{self, SharingAnalysis};
use super::table::{CaptureEngine, MAX_KEPT_ROWS};

/// An analysis with more bytes of rows is computed wherever it is read.
const MAX_KEPT_BYTES: usize = 512 << 20;
/// `pc_tensor_part`.
const PARTS: exec::RowGrain = exec::RowGrain::Instruction;

/// Tables that one analysis fills.
const SHARING: [AnalysisKind; 2] = [AnalysisKind::BlockFootprints, AnalysisKind::SectorSharing];
const BINS: [AnalysisKind; 2] = [AnalysisKind::LaunchCells, AnalysisKind::PcCells];

/// The rows of `pc_tensor_part` as an analysis.
struct TensorParts(TensorPartRows);

impl AccessAnalysis for TensorParts {
    fn add(&mut self, accesses: &RecordBatch) -> Result<()> {
        self.0.add(accesses)
    }

    fn end_launch(&mut self) {}

    fn bytes(&self) -> usize {
        0
    }

    fn end(&mut self) {
        self.0.close();
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        if self.0.waiting() < least.max(1) { Ok(None) } else { self.0.take().map(Some) }
    }
}

/// Analyses of the same accesses.
struct JoinedAnalyses(Vec<Box<dyn AccessAnalysis>>);

impl JoinedAnalyses {
    fn new(
        engine: &CaptureEngine,
        kinds: &[AnalysisKind],
        filters: &[Expr],
        index: &Arc<TensorIndex>,
        room_bytes: usize,
    ) -> Result<Self> {
        let has_all = |pair: [AnalysisKind; 2]| pair.iter().all(|kind| kinds.contains(kind));
        let (shares, bins) = (has_all(SHARING), has_all(BINS));
        let mut all: Vec<Box<dyn AccessAnalysis>> = Vec::new();
        if shares {
            all.push(Box::new(SharingAnalysis::new(sharing::SharingGrain::Both, room_bytes)));
        }
        for kind in kinds.iter().filter(|kind| !(shares && SHARING.contains(kind))) {
            let asked = Arc::new(AnalysisScan::all(engine, *kind, filters, index)?);
            let resolver = AddressResolver::new(Arc::clone(index));
            match kind {
                // It has the columns of both.
                AnalysisKind::LaunchCells if bins => {
                    all.push(Box::new(BinCells::new(resolver, asked, cells::CellGrain::Both, room_bytes)));
                }
                AnalysisKind::PcCells if bins => (),
                _ => all.push(kind.start(resolver, &asked, room_bytes)),
            }
        }
        Ok(Self(all))
    }
}

impl AccessAnalysis for JoinedAnalyses {
    fn add(&mut self, accesses: &RecordBatch) -> Result<()> {
        self.0.iter_mut().try_for_each(|one| one.add(accesses))
    }

    fn end_launch(&mut self) {
        self.0.iter_mut().for_each(|one| one.end_launch());
    }

    fn jobs(&mut self, most: usize) -> Vec<Box<dyn LaunchJob>> {
        self.0.iter_mut().flat_map(|one| one.jobs(most)).collect()
    }

    fn work(&mut self) -> bool {
        self.0.iter_mut().any(|one| one.work())
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|one| one.bytes()).sum()
    }

    fn end(&mut self) {
        self.0.iter_mut().for_each(|one| one.end());
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        for one in &mut self.0 {
            if let Some(rows) = one.take(least)? {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }
}

/// The rows of several tables, with their memory. None where they are many.
type PassTables = Vec<Option<(Vec<RecordBatch>, MemoryReservation)>>;

/// The bins of the tensors that were asked for last.
#[derive(Debug, Default)]
pub(super) struct TensorBins(Mutex<LastBins>);

/// Tensors, by their positions in the index, and the rows of both tables.
#[derive(Debug, Default)]
struct LastBins {
    views: BTreeSet<u32>,
    rows: Arc<OnceCell<PassTables>>,
}

impl TensorBins {
    /// The rows of some tensors, empty unless they are those of the last call.
    fn for_views(&self, views: &BTreeSet<u32>) -> Arc<OnceCell<PassTables>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.views != *views {
            *last = LastBins { views: views.clone(), rows: Arc::default() };
        }
        Arc::clone(&last.rows)
    }
}

impl CaptureEngine {
    /// Computes analyses, those of single launches in one pass, and keeps their rows for scans of their tables. Where
    /// memory does not suffice for all, or rows are many, scans compute them.
    pub async fn keep_analyses(
        self: &Arc<Self>,
        context: &SessionContext,
        kinds: &[AnalysisKind],
    ) -> Result<()> {
        let kinds: Vec<AnalysisKind> =
            kinds.iter().copied().filter(|kind| self.analyzed(*kind).is_none()).collect();
        let state = context.state();
        let pass =
            TablePass { kinds: &kinds, filters: &[], keeps_parts: self.is_without_parts(&state).await? };
        let mut rows = self.together(&state, &pass).await?;
        let parts = rows.split_off(kinds.len().min(rows.len()));
        for (parts, _) in parts.into_iter().flatten() {
            self.set_parts(parts);
        }
        for (kind, rows) in kinds.iter().zip(rows) {
            if let Some((rows, memory)) = rows {
                self.keep(*kind, rows, memory);
            }
        }
        Ok(())
    }

    /// Searches for wrong accesses in one pass, and keeps what is found. Without a runtime, scans do it.
    pub(super) async fn keep_defects(self: &Arc<Self>, state: &dyn Session) -> Result<()> {
        if Handle::try_current().is_err() {
            return Ok(());
        }
        let search = async || {
            let is_new = |kind: &AnalysisKind| self.analyzed(*kind).is_none();
            let kinds: Vec<AnalysisKind> = AnalysisKind::DEFECTS.into_iter().filter(is_new).collect();
            let pass = TablePass { kinds: &kinds, filters: &[], keeps_parts: false };
            for (kind, rows) in kinds.iter().zip(self.together(state, &pass).await?) {
                if let Some((rows, memory)) = rows {
                    self.keep(*kind, rows, memory);
                }
            }
            Ok(())
        };
        self.has_defects.get_or_try_init(search).await.copied()
    }

    /// The bins of the tensors that filters select, if they select tensors and nothing else: in launches, and by
    /// instruction. One pass makes both, for a view that reads both, and for queries that draw the same tensors.
    pub(super) async fn bins(
        self: &Arc<Self>,
        state: &dyn Session,
        kind: AnalysisKind,
        filters: &[Expr],
    ) -> Result<Option<Vec<RecordBatch>>> {
        let Some(place) = BINS.iter().position(|other| *other == kind) else { return Ok(None) };
        // A query about some launches reads their accesses only.
        if !filters.iter().all(|filter| tensors(filter).is_some()) {
            return Ok(None);
        }
        let asked = AnalysisScan::new(filters, &*self.index().await?);
        let Some(views) = asked.views() else { return Ok(None) };
        let pass = TablePass { kinds: &BINS, filters, keeps_parts: false };
        let cell = self.last_bins().for_views(views);
        let rows = cell.get_or_try_init(|| self.together(state, &pass)).await?;
        Ok(rows.get(place).and_then(Option::as_ref).map(|(rows, _)| rows.clone()))
    }

    /// The rows of analyses, and of `pc_tensor_part` behind them. Empty where memory does not suffice.
    async fn together(self: &Arc<Self>, state: &dyn Session, pass: &TablePass<'_>) -> Result<PassTables> {
        match self.collected(state, pass).await {
            Err(error) if is_out_of_memory(&error) => Ok(Vec::new()),
            rows => rows,
        }
    }

    async fn collected(self: &Arc<Self>, state: &dyn Session, pass: &TablePass<'_>) -> Result<PassTables> {
        let mut tasks = JoinSet::new();
        let mut schemas: Vec<SchemaRef> = pass.kinds.iter().map(|kind| kind.schema()).collect();
        schemas.extend(pass.keeps_parts.then(|| PARTS.schema()));
        for (part, mut running) in self.passes(state, pass).await?.into_iter().enumerate() {
            let (schemas, memory) = (schemas.clone(), reservation(state));
            tasks.spawn(async move {
                let mut rows: Vec<Vec<RecordBatch>> = schemas.iter().map(|_| Vec::new()).collect();
                while let Some(batch) = running.next().await? {
                    memory.try_grow(batch.get_array_memory_size())?;
                    let table = schemas.iter().position(|schema| *schema == batch.schema());
                    if let Some(rows) = table.and_then(|table| rows.get_mut(table)) {
                        rows.push(batch);
                    }
                }
                Ok::<_, DataFusionError>((part, rows, memory))
            });
        }
        let mut parts = Vec::new();
        while let Some(part) = tasks.join_next().await {
            parts.push(part.map_err(|error| DataFusionError::External(Box::new(error)))??);
        }
        // Rows are in the order of launches.
        parts.sort_by_key(|(part, ..)| *part);
        let tables = (0..schemas.len()).map(|table| {
            let own = parts.iter_mut().filter_map(|(_, rows, _)| rows.get_mut(table));
            let rows: Vec<RecordBatch> = own.flat_map(std::mem::take).collect();
            let memory = reservation(state);
            let count = rows.iter().map(RecordBatch::num_rows).sum::<usize>();
            let bytes = rows.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
            let is_few = count <= MAX_KEPT_ROWS && bytes <= MAX_KEPT_BYTES;
            (is_few && memory.try_grow(bytes).is_ok()).then_some((rows, memory))
        });
        Ok(tables.collect())
    }

    /// One pass over each part of the launches, and one for each analysis of all launches.
    async fn passes(
        self: &Arc<Self>,
        state: &dyn Session,
        pass: &TablePass<'_>,
    ) -> Result<Vec<RunningAnalysis>> {
        let access = self.access();
        let (task, columns) = (state.task_ctx(), analyses::input(&access.schema())?);
        let resolves = pass.keeps_parts || pass.kinds.iter().any(|kind| kind.resolves());
        let index = if resolves { self.index().await? } else { Arc::default() };
        if pass.kinds.iter().any(|kind| kind.reads_code()) {
            self.read_code(state).await?;
        }
        let filter = AnalysisScan::new(pass.filters, &index).predicate(&access.schema())?;
        let of = |kinds: &[AnalysisKind]| JoinedAnalyses::new(self, kinds, pass.filters, &index, room(&task));
        let running = |scan, analysis: JoinedAnalyses, name: &str| {
            // This plan does not pass through the optimizer, which guards the scans of all others.
            let input = GuardScans.optimize(scan, state.config_options())?.execute(0, Arc::clone(&task))?;
            Ok::<_, DataFusionError>(RunningAnalysis::new(
                input,
                Box::new(analysis),
                name.into(),
                &self.turn(),
                &task,
            ))
        };
        let (of_launches, others): (Vec<AnalysisKind>, Vec<AnalysisKind>) =
            pass.kinds.iter().partition(|kind| kind.is_by_launch());
        let mut passes = Vec::new();
        for kind in others {
            let scan = access.scan_in_order(state, &columns, filter.clone())?;
            passes.push(running(scan, of(&[kind])?, kind.table().name)?);
        }
        if of_launches.is_empty() {
            return Ok(passes);
        }
        for scan in access.scans_in_order(state, &columns, filter.as_ref())? {
            let mut analysis = of(&of_launches)?;
            if pass.keeps_parts {
                let (own, all) = (AddressResolver::new(Arc::clone(&index)), PARTS.schema());
                let columns = (0..all.fields().len()).collect();
                analysis.0.push(Box::new(TensorParts(TensorPartRows::new(own, all, columns, None))));
            }
            passes.push(running(scan, analysis, "analyses of launches")?);
        }
        Ok(passes)
    }
}

/// The tables of a pass.
struct TablePass<'a> {
    kinds: &'a [AnalysisKind],
    /// Filters on tensors.
    filters: &'a [Expr],
    /// True with `pc_tensor_part`.
    keeps_parts: bool,
}

fn reservation(state: &dyn Session) -> MemoryReservation {
    MemoryConsumer::new("rows of analyses").register(&state.runtime_env().memory_pool)
}
