//! One table of a capture as a DataFusion table.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{RecordBatch, new_null_array};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::config::TableParquetOptions;
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::file::metadata::PageIndexPolicy;
use stallmap_schema::capture::source::EntryBytes;
use stallmap_schema::capture::{bounds, pages};
use stallmap_schema::check::{chained, check_keys};
use stallmap_schema::contained::contained;
use stallmap_schema::table::TableDef;

mod chosen;

use super::claims;
use super::column;
use super::cuts::{self, ValueRange};
use super::reader::TableBytes;
use crate::error::{TableError, failed, unreadable};

/// The object store named by scans. Nothing is read through it: each table provides its own bytes.
pub const STORE: &str = "stallmap://capture";

/// Fewer rows than this are read by one thread.
const ROWS_WORTH_A_THREAD: i64 = 100_000;
/// Fewer rows than this are analyzed by one thread: an analysis takes longer than a scan.
const ROWS_WORTH_A_PART: i64 = 16 << 10;

/// Keys of a larger file that is read by ranges are not checked.
const SMALL_REMOTE_BYTES: u64 = 1 << 20;
/// The largest tables. No query joins by their keys, so a repeated one costs nothing.
const REPEATING: [&str; 4] = ["pc_sample", "bundle_page", "bundle_symbol", "bundle_content"];

/// A table of a capture.
#[derive(Debug)]
pub struct CapturedTable {
    name: String,
    schema: SchemaRef,
    file: TableBytes,
    sort: Vec<&'static str>,
    statistics: Statistics,
    presence: TablePresence,
    /// Assumptions of queries about the file, checked before its first row is read.
    vetted: OnceLock<Result<(), String>>,
    /// The memory that [`CapturedTable::read`] counts against.
    pool: OnceLock<Arc<dyn MemoryPool>>,
}

/// Bytes of the row groups that a scan reads.
enum GroupDivision {
    /// In one run.
    Whole(Range<i64>),
    /// In as many runs, or more.
    Ranges(Vec<Range<i64>>),
}

/// Presence of a declared table in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablePresence {
    /// Present.
    Held,
    /// Missing, although its writer knew the table.
    Missing,
    /// Absent: the writer's release did not know this table.
    Unknown,
}

impl CapturedTable {
    /// A table from the bytes of its Parquet file. A declared one has the declared columns, then any that this version
    /// does not know.
    pub fn open(
        name: &str,
        definition: Option<&'static TableDef>,
        bytes: EntryBytes,
    ) -> Result<Self, TableError> {
        let wrong = |reason: String| TableError::Table { table: name.to_owned(), reason };
        // Parquet's decoder can panic on damaged footers. Here a panic is an error like any other.
        let loaded = contained(|| {
            let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
            ArrowReaderMetadata::load(&bytes, options)
        });
        let loaded = loaded.map_err(wrong)?.map_err(|error| wrong(error.to_string()))?;
        // Statistics of values of a fixed length are allocated for many values at once.
        pages::check_types(loaded.metadata()).map_err(wrong)?;
        let schema = table_schema(definition, loaded.schema());
        // Only a file that declares an order counts as sorted.
        let groups = loaded.metadata().row_groups();
        let sort = definition
            .filter(|_| groups.iter().all(|group| group.sorting_columns().is_some()))
            .map(|table| table.sort.to_vec())
            .unwrap_or_default();
        let metadata = Arc::new(
            claims::only_of(loaded.metadata(), sort.first().copied())
                .map_err(|error| wrong(error.to_string()))?,
        );
        let statistics =
            contained(|| DFParquetMetadata::statistics_from_parquet_metadata(loaded.metadata(), &schema))
                .ok()
                .and_then(Result::ok)
                .unwrap_or_else(|| Statistics::new_unknown(&schema));
        Ok(Self {
            name: name.to_owned(),
            sort,
            file: TableBytes { bytes, metadata },
            schema,
            statistics: claims::estimated(statistics),
            presence: TablePresence::Held,
            vetted: OnceLock::new(),
            pool: OnceLock::new(),
        })
    }

    /// A declared table without rows.
    pub fn without_rows(definition: &'static TableDef, presence: TablePresence) -> Result<Self, TableError> {
        let wrong = |error: parquet::errors::ParquetError| TableError::Table {
            table: definition.name.to_owned(),
            reason: error.to_string(),
        };
        let mut bytes = Vec::new();
        let writer = ArrowWriter::try_new(&mut bytes, definition.schema(), None).map_err(wrong)?;
        writer.close().map_err(wrong)?;
        let table = Self::open(definition.name, Some(definition), Bytes::from(bytes).into())?;
        Ok(Self { presence, ..table })
    }

    /// Name in the capture.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Presence in the capture.
    pub fn presence(&self) -> TablePresence {
        self.presence
    }

    /// True if the capture lacks this declared table, although its writer knew it.
    pub fn is_missing(&self) -> bool {
        self.presence == TablePresence::Missing
    }

    /// Rows, from the footer.
    pub fn rows(&self) -> i64 {
        self.file.metadata.file_metadata().num_rows()
    }

    /// Bytes of the table's file. 0 without one.
    pub fn size_bytes(&self) -> usize {
        let size = usize::try_from(self.file.bytes.size_bytes()).unwrap_or(usize::MAX);
        if self.presence == TablePresence::Held { size } else { 0 }
    }

    /// Each column: name, type as Arrow spells it, doc.
    pub fn columns(&self) -> Vec<(String, String, String)> {
        let declared = super::definition(&self.name).map(|table| table.columns).unwrap_or_default();
        let doc =
            |name: &str| declared.iter().find(|column| column.name == name).map(|c| c.doc.trim().to_owned());
        let fields = self.schema.fields().iter();
        let column = |field: &Arc<Field>| {
            let name = field.name();
            (name.clone(), field.data_type().to_string(), doc(name).unwrap_or_default())
        };
        fields.map(column).collect()
    }

    /// Makes rows that are read at once count against a pool. A file of a few KiB can have any number of equal ones.
    pub fn count_in(&self, pool: &Arc<dyn MemoryPool>) {
        self.pool.get_or_init(|| Arc::clone(pool));
    }

    /// All rows of some columns, as declared: for tables that fit in memory.
    pub fn read(&self, columns: &[&str]) -> Result<RecordBatch> {
        let projection: Result<Vec<usize>, _> =
            columns.iter().map(|name| self.schema.index_of(name)).collect();
        let schema = Arc::new(self.schema.project(&projection?)?);
        let read = contained(|| self.read_as(&schema));
        read.unwrap_or_else(|panic| Err(DataFusionError::Execution(panic))).map_err(|error| match error {
            DataFusionError::External(inner) if inner.is::<TableError>() => DataFusionError::External(inner),
            DataFusionError::ResourcesExhausted(cause) => DataFusionError::ResourcesExhausted(cause),
            error => failed(&self.name, &self.file.bytes, error.strip_backtrace()),
        })
    }

    /// Checks, once, that the file is bounded, sorted and without repeated keys, and that its statements are true. The
    /// keys of a large file that is read by ranges are not checked: all of them would be fetched.
    fn vet(&self) -> Result<()> {
        let checked = self.vetted.get_or_init(|| contained(|| self.check()).flatten());
        checked.clone().map_err(|reason| failed(&self.name, &self.file.bytes, reason))
    }

    fn check(&self) -> Result<(), String> {
        let TableBytes { bytes, metadata } = &self.file;
        pages::check(&self.name, bytes, metadata, |_| true)?;
        let definition = super::definition(&self.name);
        column::check(definition, metadata.file_metadata().schema_descr())?;
        if let Some(column) = self.sort.first() {
            claims::check(bytes, metadata, column)?;
        }
        let is_near = bytes.is_near() || bytes.size_bytes() <= SMALL_REMOTE_BYTES;
        match definition {
            Some(table) if is_near && !table.key.is_empty() && !REPEATING.contains(&table.name) => {
                self.check_keys(table)
            }
            _ => Ok(()),
        }
    }

    fn check_keys(&self, table: &TableDef) -> Result<(), String> {
        let text = |error: parquet::errors::ParquetError| error.to_string();
        let builder = ParquetRecordBatchReaderBuilder::try_new(self.file.bytes.clone()).map_err(text)?;
        let names = table.key.iter().chain(table.sort).chain(chained(table)).copied();
        let mask = ProjectionMask::columns(builder.parquet_schema(), names);
        let batches = builder.with_projection(mask).build().map_err(text)?;
        check_keys(table, batches.map(|batch| batch.map_err(|error| error.to_string())))
    }

    fn read_as(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        self.vet()?;
        let options = ArrowReaderOptions::new();
        let builder =
            ParquetRecordBatchReaderBuilder::try_new_with_options(self.file.bytes.clone(), options)?;
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let mask = ProjectionMask::columns(builder.parquet_schema(), names);
        self.file.prefetch(&mask);
        let (mut batches, mut row) = (Vec::new(), 0);
        let consumer = MemoryConsumer::new(format!("table {}", self.name));
        let memory = self.pool.get().map(|pool| consumer.register(pool));
        for batch in builder.with_projection(mask).build()? {
            let batch = batch?;
            bounds::check(&self.name, &batch, row).map_err(|reason| unreadable(&self.name, reason))?;
            row += batch.num_rows() as u64;
            let column = |field: &Arc<Field>| match batch.column_by_name(field.name()) {
                Some(column) => cast(column, field.data_type()),
                None => Ok(new_null_array(field.data_type(), batch.num_rows())),
            };
            let columns: Result<Vec<_>, _> = schema.fields().iter().map(column).collect();
            let batch = RecordBatch::try_new(Arc::clone(schema), columns?)?;
            memory.iter().try_for_each(|memory| memory.try_grow(batch.get_array_memory_size()))?;
            batches.push(batch);
        }
        Ok(concat_batches(schema, &batches)?)
    }

    /// A scan, in stored order, split into up to as many runs of complete row groups as the session has partitions.
    pub fn scan_plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let ranges = self.ranges(state.config().target_partitions());
        self.plan(state, projection, limit, (GroupDivision::Ranges(ranges), None))
    }

    /// The same, divided alike, of the rows that match a predicate on the table's columns.
    pub fn scan_where(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        predicate: Arc<dyn PhysicalExpr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let ranges = self.ranges(state.config().target_partitions());
        self.plan(state, projection, None, (GroupDivision::Ranges(ranges), Some(predicate)))
    }

    /// A scan, in stored order, in one run, of the rows that match a predicate on the table's columns.
    pub fn scan_in_order(
        &self,
        state: &dyn Session,
        projection: &Vec<usize>,
        predicate: Option<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.plan(state, Some(projection), None, (GroupDivision::Whole(0..self.end()), predicate))
    }

    /// Scans like [`CapturedTable::scan_in_order`], up to as many as the session has partitions, with about equal
    /// numbers of rows. The rows with one value of the first sort column are all in one of them.
    pub fn scans_in_order(
        &self,
        state: &dyn Session,
        projection: &Vec<usize>,
        predicate: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        self.vet()?;
        let scan = |part: ValueRange| {
            let within = self.within(&part)?;
            let both = match (predicate.map(Arc::clone), within) {
                (Some(one), Some(other)) => Some(binary(one, Operator::And, other, &self.schema)?),
                (one, other) => one.or(other),
            };
            self.plan(state, Some(projection), None, (GroupDivision::Whole(part.bytes), both))
        };
        self.parts(state.config().target_partitions()).into_iter().map(scan).collect()
    }

    /// Pieces of the table, cut between two values of its first sort column.
    fn parts(&self, most: usize) -> Vec<ValueRange> {
        let all = ValueRange { from: None, to: None, bytes: 0..self.end() };
        let wanted = most.min(usize::try_from(self.rows() / ROWS_WORTH_A_PART).unwrap_or(0));
        let Some(column) = self.sort.first().filter(|_| wanted > 1) else { return vec![all] };
        let metadata = Arc::clone(&self.file.metadata);
        let parts = contained(|| cuts::parts(&metadata, column, wanted, self.end()));
        // Without statistics, or with damaged ones, one scan reads everything.
        parts.ok().flatten().unwrap_or_else(|| vec![all])
    }

    /// The condition that a row is in a piece, on the table's columns.
    fn within(&self, part: &ValueRange) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(name) = self.sort.first() else { return Ok(None) };
        let bound = |operator: Operator, value: Option<u64>| {
            value
                .map(|value| binary(col(name, &self.schema)?, operator, lit(value), &self.schema))
                .transpose()
        };
        Ok(match (bound(Operator::GtEq, part.from)?, bound(Operator::Lt, part.to)?) {
            (Some(from), Some(to)) => Some(binary(from, Operator::And, to, &self.schema)?),
            (from, to) => from.or(to),
        })
    }

    fn plan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
        (division, predicate): (GroupDivision, Option<Arc<dyn PhysicalExpr>>),
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.vet()?;
        let mut global = state.config_options().execution.parquet.clone();
        global.pushdown_filters = true;
        let mut source = ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(TableParquetOptions { global, ..TableParquetOptions::default() })
            .with_parquet_file_reader_factory(Arc::new(self.file.clone()));
        if let Some(predicate) = predicate {
            source = source.with_predicate(predicate);
        }
        let (ranges, partitioning) = match division {
            // DataFusion divides a scan further, and merges by order, unless its partitioning is declared.
            GroupDivision::Whole(range) => (vec![range], Some(Partitioning::UnknownPartitioning(1))),
            GroupDivision::Ranges(ranges) => (ranges, None),
        };
        let groups = ranges.into_iter().map(|range| {
            let path = format!("tables/{}.parquet", self.name);
            let bytes = self.file.bytes.clone();
            let file = PartitionedFile::new(path, bytes.size_bytes()).with_extension(bytes);
            FileGroup::new(vec![file.with_range(range.start, range.end)])
        });
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::parse(STORE)?, Arc::new(source))
            .with_file_groups(groups.collect())
            .with_statistics(self.statistics.clone())
            .with_output_ordering(self.ordering()?.into_iter().collect())
            .with_output_partitioning(partitioning)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    fn ordering(&self) -> Result<Option<LexOrdering>> {
        let columns: Result<Vec<_>> = self
            .sort
            .iter()
            .map(|name| Ok(PhysicalSortExpr::new_default(col(name, &self.schema)?)))
            .collect();
        Ok(LexOrdering::new(columns?))
    }

    /// Byte ranges of complete row groups (one belongs to the range that contains its first page), with about equal
    /// numbers of rows.
    fn ranges(&self, partitions: usize) -> Vec<Range<i64>> {
        let groups = self.file.metadata.row_groups();
        let end = self.end();
        let wanted = i64::try_from(partitions).unwrap_or(1).min(self.rows() / ROWS_WORTH_A_THREAD).max(1);
        let (mut ranges, mut start, mut rows) = (Vec::new(), 0, 0);
        for group in groups {
            let full = self.rows() * (i64::try_from(ranges.len()).unwrap_or(i64::MAX) + 1) / wanted;
            if rows >= full {
                let next = cuts::begin(group).unwrap_or(end);
                if next > start {
                    ranges.push(start..next);
                    start = next;
                }
            }
            rows += group.num_rows();
        }
        ranges.push(start..end);
        ranges
    }

    /// Bytes of the file.
    fn end(&self) -> i64 {
        i64::try_from(self.file.bytes.size_bytes()).unwrap_or(i64::MAX)
    }
}

#[async_trait]
impl TableProvider for CapturedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.scan_plan(state, projection, limit)
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.statistics.clone())
    }
}

/// The declared columns, then those of the file that this version does not know.
///
/// Without their docs: DataFusion 55 compares fields with their metadata, and fails to plan a UNION of columns that
/// are documented differently.
fn table_schema(definition: Option<&TableDef>, file: &SchemaRef) -> SchemaRef {
    let declared = definition.map_or_else(|| Arc::new(Schema::empty()), TableDef::schema);
    let others = file.fields().iter().filter(|field| declared.field_with_name(field.name()).is_err());
    let plain = |field: &Arc<Field>| field.as_ref().clone().with_metadata(HashMap::new());
    Arc::new(Schema::new(declared.fields().iter().chain(others).map(plain).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, FixedSizeBinaryArray, Int64Array};
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    /// A table's file.
    fn file(batch: &RecordBatch) -> Bytes {
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        bytes.into()
    }

    #[test]
    fn a_table_of_values_of_a_large_fixed_length_is_not_opened() {
        let long: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from(vec![[0_u8; 33].as_slice()]).unwrap());
        let batch = RecordBatch::try_from_iter([("extra", long)]).unwrap();
        let error = CapturedTable::open("numbers", None, file(&batch).into()).unwrap_err().to_string();
        assert!(error.contains("column `extra`: each value has 33 bytes, and the bound is 32"), "{error}");
    }

    #[test]
    fn rows_that_are_read_at_once_count_against_a_pool() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1; 100_000]));
        let batch = RecordBatch::try_from_iter([("number", numbers)]).unwrap();
        let bytes = file(&batch);
        let read = |size: usize| {
            let table = CapturedTable::open("numbers", None, bytes.clone().into()).unwrap();
            let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(size));
            table.count_in(&pool);
            let read = table.read(&["number"]);
            assert_eq!(pool.reserved(), 0);
            read
        };
        assert_eq!(read(1 << 20).unwrap(), batch);
        assert!(matches!(read(100_000), Err(DataFusionError::ResourcesExhausted(_))));
    }
}
