//! Numbers of launches, ops, storages, tensors, allocations and contents: small and dense in a capture.
//!
//! Format 2 numbers things run after run: an identifier is the run's own number plus the numbers that earlier runs
//! took, so the launches of the first run are 0, 1, 2, ... Format 1 put the run's number above bit 40. A capture of
//! format 1 is renumbered while it is read, and its tables keep their order: the new numbers grow as the old ones do.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Schema, UInt64Type};
use arrow::error::ArrowError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

use crate::tables;

/// The first major version whose numbers are dense.
pub const DENSE_MAJOR: u32 = 2;
/// Bits below the run's number in an identifier of format 1.
const LOCAL_BITS: u32 = 40;
/// Set in the new number of an identifier that belongs to no row: it must equal no number of a row.
const DANGLING: u64 = 1 << 63;

/// Things that are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdSpace {
    /// `kernel_id`.
    Launch,
    /// `op_id`.
    Op,
    /// `storage_id`.
    Storage,
    /// `tensor_id`.
    Tensor,
    /// `allocation_id`.
    Allocation,
    /// `content_id`.
    Content,
}

impl IdSpace {
    /// Every space.
    pub const ALL: [Self; 6] =
        [Self::Launch, Self::Op, Self::Storage, Self::Tensor, Self::Allocation, Self::Content];

    /// The space that a column's numbers are of, if they are numbers at all.
    pub fn for_column(table: &str, column: &str) -> Option<Self> {
        let (mut table, mut column) = (table, column);
        loop {
            if let Some(space) = Self::ALL.into_iter().find(|space| space.owner() == (table, column)) {
                return Some(space);
            }
            let columns = tables::by_name(table)?.columns;
            (table, column) = columns.iter().find(|definition| definition.name == column)?.reference?;
        }
    }

    /// The table with one row for each number, and its column.
    pub const fn owner(self) -> (&'static str, &'static str) {
        match self {
            Self::Launch => ("launch", "kernel_id"),
            Self::Op => ("op", "op_id"),
            Self::Storage => ("storage", "storage_id"),
            Self::Tensor => ("tensor", "tensor_id"),
            Self::Allocation => ("device_allocation", "allocation_id"),
            Self::Content => ("bundle_content", "content_id"),
        }
    }

    /// The first number of a run: a launch's is its position among the run's launches.
    pub const fn first(self) -> u64 {
        match self {
            Self::Launch => 0,
            Self::Op | Self::Storage | Self::Tensor | Self::Allocation | Self::Content => 1,
        }
    }

    /// Numbers that a run takes whose last one is given.
    pub const fn taken(self, last: u64) -> u64 {
        (last + 1).saturating_sub(self.first())
    }
}

/// Columns of a table that hold numbers, with their spaces.
pub fn columns(table: &str) -> impl Iterator<Item = (&'static str, IdSpace)> {
    let columns = tables::by_name(table).map(|table| (table.name, table.columns));
    columns.into_iter().flat_map(|(table, columns)| {
        columns.iter().filter_map(move |column| Some((column.name, IdSpace::for_column(table, column.name)?)))
    })
}

/// New numbers for those of a capture of format 1.
#[derive(Debug, Default)]
pub struct IdNumbering {
    spaces: BTreeMap<IdSpace, SpaceNumbers>,
}

impl IdNumbering {
    /// From the numbers of each space's rows.
    pub(super) fn new(spaces: impl IntoIterator<Item = (IdSpace, SpaceNumbers)>) -> Self {
        Self { spaces: spaces.into_iter().collect() }
    }

    /// The new number of an old one.
    pub fn new_number(&self, space: IdSpace, old: u64) -> u64 {
        self.spaces.get(&space).and_then(|numbers| numbers.new_number(old)).unwrap_or(old | DANGLING)
    }

    /// The old number of a new one, if a row can have it.
    pub fn old_number(&self, space: IdSpace, new: u64) -> Option<u64> {
        self.spaces.get(&space).and_then(|numbers| numbers.old_number(new))
    }

    /// A column with new numbers; one that does not hold numbers stays as it is.
    pub fn renumber(&self, space: IdSpace, column: &ArrayRef) -> ArrayRef {
        let Some(old) = column.as_primitive_opt::<UInt64Type>() else { return Arc::clone(column) };
        let numbers = self.spaces.get(&space);
        let new = |old| numbers.and_then(|numbers| numbers.new_number(old)).unwrap_or(old | DANGLING);
        Arc::new(old.unary::<_, UInt64Type>(new))
    }

    /// A batch with new numbers in these columns, by position.
    pub fn renumber_batch(
        &self,
        batch: &RecordBatch,
        columns: &[(usize, IdSpace)],
    ) -> Result<RecordBatch, ArrowError> {
        let mut arrays = batch.columns().to_vec();
        for (place, space) in columns {
            if let Some(array) = arrays.get_mut(*place) {
                *array = self.renumber(*space, array);
            }
        }
        RecordBatch::try_new(batch.schema(), arrays)
    }
}

/// The numbers of one space, run by run.
#[derive(Debug, Default)]
pub(super) struct SpaceNumbers {
    first: u64,
    runs: Vec<RunNumbers>,
}

#[derive(Debug)]
struct RunNumbers {
    /// The run, as the bits above its numbers.
    run: u64,
    /// Offsets from the run's own ids to the new ones.
    base: u64,
    /// The run's last number.
    last: u64,
}

impl SpaceNumbers {
    /// From the last numbers of runs, by run.
    pub(super) fn new(space: IdSpace, last: &BTreeMap<u64, u64>) -> Self {
        let mut base = 0;
        let run = |(&run, &last): (&u64, &u64)| {
            let numbers = RunNumbers { run, base, last };
            base += space.taken(last);
            numbers
        };
        Self { first: space.first(), runs: last.iter().map(run).collect() }
    }

    fn new_number(&self, old: u64) -> Option<u64> {
        let (run, own) = split(old);
        let place = self.runs.binary_search_by_key(&run, |numbers| numbers.run).ok()?;
        let numbers = self.runs.get(place).filter(|numbers| (self.first..=numbers.last).contains(&own))?;
        Some(numbers.base + own)
    }

    fn old_number(&self, new: u64) -> Option<u64> {
        let place = self.runs.partition_point(|numbers| numbers.base + self.first <= new).checked_sub(1)?;
        let numbers = self.runs.get(place)?;
        let own = new - numbers.base;
        (own <= numbers.last).then_some(numbers.run << LOCAL_BITS | own)
    }
}

/// The last number of each run, while rows are read.
#[derive(Debug, Default)]
pub(super) struct LastNumbers(pub(super) BTreeMap<u64, u64>);

impl LastNumbers {
    fn add(&mut self, old: u64) {
        let (run, own) = split(old);
        let last = self.0.entry(run).or_insert(own);
        *last = own.max(*last);
    }

    /// Adds the rows of a batch with the one column.
    pub(super) fn add_all(&mut self, column: &dyn Array) {
        let numbers = column.as_primitive_opt::<UInt64Type>();
        numbers.into_iter().flat_map(|numbers| numbers.iter().flatten()).for_each(|old| self.add(old));
    }

    /// Adds a row group by its statistics; `false` where they do not say enough, and its rows are to be read.
    pub(super) fn add_group(&mut self, group: &RowGroupMetaData, leaf: usize) -> bool {
        let Some(Statistics::Int64(statistics)) =
            group.columns().get(leaf).and_then(|leaf| leaf.statistics())
        else {
            return false;
        };
        let bounds = statistics.min_opt().zip(statistics.max_opt());
        let Some((least, greatest)) = bounds.map(|(min, max)| (min.cast_unsigned(), max.cast_unsigned()))
        else {
            return false;
        };
        let is_one_run = split(least).0 == split(greatest).0;
        if is_one_run {
            self.add(greatest);
        }
        is_one_run
    }
}

/// An identifier of format 1: the run, and its own number.
fn split(old: u64) -> (u64, u64) {
    (old >> LOCAL_BITS, old & ((1 << LOCAL_BITS) - 1))
}

/// Positions of a schema's columns that hold numbers.
pub(super) fn positions(table: &str, schema: &Schema) -> Vec<(usize, IdSpace)> {
    let known: BTreeMap<_, _> = columns(table).collect();
    let fields = schema.fields().iter().enumerate();
    fields.filter_map(|(place, field)| Some((place, *known.get(field.name().as_str())?))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn new_numbers_grow_with_the_old_ones(
            last in prop::collection::btree_map(0..5_u64, 0..20_u64, 0..5),
            new in 0..120_u64,
        ) {
            let numbers = SpaceNumbers::new(IdSpace::Op, &last);
            let old = |new| numbers.old_number(new);
            let count: u64 = last.values().sum();
            prop_assert_eq!(old(new).is_some(), (1..=count).contains(&new));
            prop_assert_eq!(old(new).and_then(|old| numbers.new_number(old)), old(new).map(|_| new));
            prop_assert!(old(new).zip(old(new + 1)).is_none_or(|(a, b)| a < b));
        }
    }

    #[test]
    fn columns_that_look_like_numbers_are_numbers() {
        const NAMES: [&str; 6] =
            ["kernel_id", "op_id", "storage_id", "tensor_id", "allocation_id", "content_id"];
        for table in tables::ALL {
            for column in table.columns {
                let looks = NAMES.iter().any(|name| column.name.ends_with(name))
                    || ["content_after_id", "accesses_of"].contains(&column.name);
                let space = IdSpace::for_column(table.name, column.name);
                assert_eq!(space.is_some(), looks, "{}.{}", table.name, column.name);
            }
        }
        assert_eq!(IdSpace::for_column("counter", "kernel_id"), Some(IdSpace::Launch));
        assert_eq!(IdSpace::for_column("tensor", "base_tensor_id"), Some(IdSpace::Tensor));
    }

    #[test]
    fn numbers_count_on_from_run_to_run() {
        let last = BTreeMap::from([(1, 2), (3, 0), (4, 7)]);
        let launches = SpaceNumbers::new(IdSpace::Launch, &last);
        let old = |run: u64, own: u64| run << LOCAL_BITS | own;
        let pairs = [(old(1, 0), 0), (old(1, 2), 2), (old(3, 0), 3), (old(4, 0), 4), (old(4, 7), 11)];
        for (old, new) in pairs {
            assert_eq!((launches.new_number(old), launches.old_number(new)), (Some(new), Some(old)));
        }
        for dangling in [old(1, 3), old(2, 0), 0, u64::MAX] {
            assert_eq!(launches.new_number(dangling), None);
        }
        assert_eq!(launches.old_number(12), None);
        let ops = SpaceNumbers::new(IdSpace::Op, &BTreeMap::from([(1, 2), (2, 2)]));
        let new = [old(1, 0), old(1, 1), old(1, 2), old(2, 0), old(2, 1)].map(|old| ops.new_number(old));
        assert_eq!(new, [None, Some(1), Some(2), None, Some(3)]);
        assert_eq!(
            [0, 1, 3, 5].map(|new| ops.old_number(new)),
            [None, Some(old(1, 1)), Some(old(2, 1)), None]
        );
        let numbering = IdNumbering::new([(IdSpace::Op, ops)]);
        assert_eq!(numbering.new_number(IdSpace::Op, old(2, 9)), old(2, 9) | DANGLING);
    }
}
