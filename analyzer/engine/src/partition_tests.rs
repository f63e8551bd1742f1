//! Analyses over several partitions against one, and within a limit on memory.

use std::sync::Arc;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::Float64Type;
use arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use object_store::memory::InMemory;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::WriterProperties;
use stallmap_schema::id::{Address, FunctionId, KernelId, Pc};
use stallmap_schema::table::TableRow as _;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::word::{AccessKind, Space};
use stallmap_tables::captured::{CapturedTable, STORE};
use stallmap_tables::derived::OF_ACCESSES;

use super::analyses::{AnalysisKind, AnalysisScan};
use super::analysis::COLUMNS;
use super::analyze::AnalyzeExec;

/// Kinds that need no tensors.
const KINDS: [AnalysisKind; 7] = [
    AnalysisKind::BlockFootprints,
    AnalysisKind::SectorSharing,
    AnalysisKind::ReuseDistances,
    AnalysisKind::InstructionReuse,
    AnalysisKind::LoadRedundancy,
    AnalysisKind::Classes,
    AnalysisKind::Strides,
];

/// Requests of launches of different lengths. One has as many as all others together.
fn accesses() -> RecordBatch {
    let lengths = (0..40_u64).map(|launch| if launch == 17 { 40_000 } else { 100 + launch * 97 % 1900 });
    let rows = (0..).zip(lengths).flat_map(|(launch, length)| {
        (0..length).map(move |row| request(3 * launch, row * 4 / length, row, length))
    });
    MemoryAccess::batch(rows).unwrap()
}

fn request(launch: u64, pc: u64, row: u64, length: u64) -> MemoryAccess {
    let mixed = (launch * 7919 + row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    MemoryAccess {
        kernel_id: KernelId(launch),
        function_id: FunctionId(1),
        pc: Pc(u32::try_from(pc).unwrap() * 16),
        block: row * 16 / length % 4,
        warp: u16::try_from(row % 8).unwrap(),
        sequence: row * 4 % length * length + row,
        kind: if pc == 2 { AccessKind::Write } else { AccessKind::Read },
        space: Space::Global,
        access_bytes: 4,
        lane_mask: u32::MAX,
        address: Address((1 << 30) + mixed % 5000 * 32),
        span_bytes: 128,
        stride_bytes: Some(4),
        offsets: None,
        offset_shift: 0,
    }
}

/// The table as a file whose row groups and pages cut launches.
fn table(rows: &RecordBatch) -> CapturedTable {
    let column = |column_idx| SortingColumn { column_idx, descending: false, nulls_first: true };
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(9_000))
        .set_data_page_row_count_limit(1_000)
        .set_write_batch_size(500)
        .set_sorting_columns(Some((0..3).map(column).collect()));
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(properties.build())).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    let definition = stallmap_tables::definition("memory_access");
    CapturedTable::open("memory_access", definition, bytes::Bytes::from(bytes).into()).unwrap()
}

fn context(partitions: usize, limit_bytes: Option<usize>) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new();
    let runtime =
        limit_bytes.map_or_else(RuntimeEnvBuilder::new, |limit| runtime.with_memory_limit(limit, 1.0));
    let config = SessionConfig::new().with_target_partitions(partitions);
    let context = SessionContext::new_with_config_rt(config, runtime.build_arc().unwrap());
    let store = ObjectStoreUrl::parse(STORE).unwrap();
    context.register_object_store(store.as_ref(), Arc::new(InMemory::new()));
    context
}

fn plan(table: &CapturedTable, kind: AnalysisKind, context: &SessionContext) -> Arc<dyn ExecutionPlan> {
    let schema = datafusion::catalog::TableProvider::schema(table);
    let input: Vec<usize> = COLUMNS.iter().map(|name| schema.index_of(name).unwrap()).collect();
    let inputs = table.scans_in_order(&context.state(), &input, None).unwrap();
    let columns = (0..kind.schema().fields().len()).collect();
    Arc::new(
        AnalyzeExec::new(inputs, Arc::default(), kind, Arc::new(AnalysisScan::default()), columns).unwrap(),
    )
}

fn run(plan: Arc<dyn ExecutionPlan>, context: &SessionContext) -> Result<Vec<RecordBatch>> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(collect(plan, context.task_ctx()))
}

fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines: Vec<String> =
        pretty_format_batches(batches).unwrap().to_string().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn partitions_together_have_the_rows_of_one() {
    let table = table(&accesses());
    for kind in KINDS {
        let (one, four) = (context(1, None), context(4, None));
        let (whole, parted) = (plan(&table, kind, &one), plan(&table, kind, &four));
        assert_eq!(whole.output_partitioning().partition_count(), 1);
        assert!(parted.output_partitioning().partition_count() >= 3, "{kind:?}");
        let (whole, parted) = (run(whole, &one).unwrap(), run(parted, &four).unwrap());
        assert!(whole.iter().map(RecordBatch::num_rows).sum::<usize>() >= 40);
        assert_eq!(sorted(&whole), sorted(&parted), "{kind:?}");
    }
}

#[test]
fn launches_that_fit_have_the_same_rows_within_a_limit_on_memory() {
    let table = table(&accesses());
    for kind in KINDS {
        let (free, tight) = (context(1, None), context(3, Some(1 << 30)));
        let expected = run(plan(&table, kind, &free), &free).unwrap();
        let found = run(plan(&table, kind, &tight), &tight).unwrap();
        assert_eq!(sorted(&found), sorted(&expected), "{kind:?}");
    }
}

#[test]
fn launches_beyond_a_limit_on_memory_are_sampled_alike_by_any_number_of_threads() {
    let table = table(&accesses());
    // These hold one instruction at a time.
    let is_exact = |kind: &AnalysisKind| matches!(kind, AnalysisKind::Classes | AnalysisKind::Strides);
    for kind in KINDS.into_iter().filter(|kind| !is_exact(kind)) {
        let (one, four) = (context(1, Some(4 << 20)), context(4, Some(4 << 20)));
        let alone = run(plan(&table, kind, &one), &one).unwrap();
        let together = run(plan(&table, kind, &four), &four).unwrap();
        assert_eq!(sorted(&alone), sorted(&together), "{kind:?}");
        let rates = alone.iter().flat_map(|batch| {
            let rates = ["sector_rate", "line_rate"].into_iter().find_map(|name| batch.column_by_name(name));
            rates.unwrap().as_primitive::<Float64Type>().values().to_vec()
        });
        // Blocks of this table touch all sectors in between, so they have few runs.
        let fits = matches!(kind, AnalysisKind::BlockFootprints | AnalysisKind::SectorSharing);
        assert!(fits || rates.clone().any(|rate| rate < 1.0), "{kind:?}");
        assert!(rates.clone().any(|rate| rate >= 1.0), "{kind:?}");
    }
}

#[test]
fn analyses_are_known_to_need_accesses() {
    for kind in AnalysisKind::ALL {
        assert!(OF_ACCESSES.contains(&kind.table().name), "{kind:?}");
    }
}
