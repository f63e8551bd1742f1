//! The order that a scan declares, compared with its rows while they are read.
//!
//! Operators rely on it. A table with a key is compared as a whole before its first row is read, and the largest ones
//! have none: here only the columns that a query reads are compared.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, RecordBatch, make_comparator};
use arrow::buffer::BooleanBuffer;
use arrow::compute::SortOptions;
use arrow::compute::kernels::cmp::{eq, gt};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _};

/// The columns by which a stream's rows are sorted, with the last row so far.
pub(super) struct StreamOrder {
    columns: Vec<(usize, SortOptions)>,
    last: Option<Vec<ArrayRef>>,
}

impl StreamOrder {
    /// The order of a plan's rows. None without one.
    pub(super) fn from_plan(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let column =
            |expr: &PhysicalSortExpr| Some((expr.expr.downcast_ref::<Column>()?.index(), expr.options));
        let columns: Vec<_> = plan.output_ordering()?.iter().map_while(column).collect();
        (!columns.is_empty()).then_some(Self { columns, last: None })
    }

    /// True if a batch continues the order.
    pub(super) fn continues(&mut self, batch: &RecordBatch) -> Result<bool> {
        let Some(end) = batch.num_rows().checked_sub(1) else { return Ok(true) };
        let columns: Vec<ArrayRef> =
            self.columns.iter().map(|(index, _)| batch.column(*index).clone()).collect();
        let last = self.last.replace(columns.iter().map(|column| column.slice(end, 1)).collect());
        if let Some(last) = last
            && !self.are_sorted(&last, &columns, std::iter::once((0, 0)))?
        {
            return Ok(false);
        }
        match self.are_rising(&columns, end)? {
            Some(are_rising) => Ok(are_rising),
            None => self.are_sorted(&columns, &columns, (0..end).map(|row| (row, row + 1))),
        }
    }

    /// True if no row of a batch is behind the next. Columns are compared one by one, for all rows at once, because a call for
    /// each pair of rows takes several times as long. None for columns with nulls or in another order.
    fn are_rising(&self, columns: &[ArrayRef], end: usize) -> Result<Option<bool>> {
        let is_plain = |(column, (_, options)): (&ArrayRef, &(usize, SortOptions))| {
            *options == SortOptions::default() && column.data_type().is_integer() && column.null_count() == 0
        };
        if !columns.iter().zip(&self.columns).all(is_plain) {
            return Ok(None);
        }
        // Pairs of rows that are equal in all columns so far.
        let mut equal: Option<BooleanBuffer> = None;
        for (column, number) in columns.iter().zip(1..) {
            let (rows, next) = (column.slice(0, end), column.slice(1, end));
            let mut falls = gt(&rows, &next)?.values().clone();
            if let Some(equal) = &equal {
                falls = equal & &falls;
            }
            if falls.count_set_bits() > 0 {
                return Ok(Some(false));
            }
            // Nothing is behind it, or all rows have one value, such as the launch.
            let has_one = equal.is_none() && eq(&column.slice(0, 1), &column.slice(end, 1))?.value(0);
            if has_one || number == columns.len() {
                continue;
            }
            let mut same = eq(&rows, &next)?.values().clone();
            if let Some(equal) = &equal {
                same = equal & &same;
            }
            if same.count_set_bits() == 0 {
                break;
            }
            equal = Some(same);
        }
        Ok(Some(true))
    }

    /// True if no row of a pair is behind the other.
    fn are_sorted(
        &self,
        one: &[ArrayRef],
        other: &[ArrayRef],
        mut pairs: impl Iterator<Item = (usize, usize)>,
    ) -> Result<bool> {
        let both = one.iter().zip(other).zip(&self.columns);
        let comparators: Result<Vec<_>, _> =
            both.map(|((one, other), (_, options))| make_comparator(one, other, *options)).collect();
        let comparators = comparators?;
        Ok(pairs.all(|(a, b)| {
            let unequal = comparators.iter().map(|compare| compare(a, b)).find(|found| found.is_ne());
            unequal != Some(Ordering::Greater)
        }))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::UInt64Array;
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn batch(rows: &[(u64, u64)]) -> RecordBatch {
        let schema = Schema::new(["a", "b"].map(|name| Field::new(name, DataType::UInt64, false)).to_vec());
        let column = |of: fn(&(u64, u64)) -> u64| {
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(of))) as ArrayRef
        };
        RecordBatch::try_new(Arc::new(schema), vec![column(|row| row.0), column(|row| row.1)]).unwrap()
    }

    #[test]
    fn rows_are_compared_within_batches_and_between_them() {
        let order = || StreamOrder {
            columns: vec![(0, SortOptions::default()), (1, SortOptions::default())],
            last: None,
        };
        let check = |batches: &[&[(u64, u64)]]| {
            let mut order = order();
            batches.iter().all(|rows| order.continues(&batch(rows)).unwrap())
        };
        assert!(check(&[&[(1, 5), (1, 5), (2, 0)], &[], &[(2, 0), (3, 1)]]));
        assert!(!check(&[&[(1, 5), (1, 4)]]));
        assert!(!check(&[&[(1, 5), (2, 4)], &[(2, 3)]]));
        assert!(!check(&[&[(1, 5)], &[], &[(0, 9)]]));
        assert!(!check(&[&[(1, 5), (1, 6), (0, 7)]]));
        assert!(check(&[&[(1, 5), (2, 4), (2, 4), (3, 0)]]));
    }
}
