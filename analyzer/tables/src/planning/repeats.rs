//! Rows that an operator repeats, once for each element of their lists.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::unnest::UnnestExec;

use crate::planning::pass::RowPass;
use crate::planning::pauses::sliced;

/// Bytes of the rows that are made at once, about.
pub(crate) const AT_ONCE_BYTES: usize = 32 << 20;
/// Most bytes of the rows that one row becomes.
const MAX_BYTES: usize = 256 << 20;

/// Bytes of a row of a batch, on average.
pub(crate) fn row_bytes(batch: &RecordBatch) -> usize {
    let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_default();
    batch.columns().iter().map(bytes).sum::<usize>() / batch.num_rows().max(1)
}

/// Hands on as few rows as make few bytes once their lists are rows.
#[derive(Debug)]
pub(crate) struct ListPass {
    /// Positions of the columns with lists.
    lists: Vec<usize>,
}

impl ListPass {
    pub(crate) fn for_unnest(unnest: &UnnestExec) -> Self {
        Self { lists: unnest.list_column_indices().iter().map(|list| list.index_in_input_schema).collect() }
    }
}

impl RowPass for ListPass {
    fn name(&self) -> &'static str {
        "ListSliceExec"
    }

    fn pass(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let lists = self.lists.clone();
        Ok(sliced(input.execute(partition, context)?, move |batch| rows_at_once(batch, &lists)))
    }
}

/// The first rows of a batch that are made into rows at once.
fn rows_at_once(batch: &RecordBatch, lists: &[usize]) -> Result<usize> {
    let others: Vec<usize> = (0..batch.num_columns()).filter(|index| !lists.contains(index)).collect();
    let repeated_bytes = row_bytes(&batch.project(&others)?);
    let element_bytes = size_of::<u64>() * lists.len();
    let mut counts: Vec<usize> = vec![0; batch.num_rows()];
    for list in lists {
        for (most, elements) in counts.iter_mut().zip(elements(batch.column(*list))?) {
            *most = elements.max(*most);
        }
    }
    let mut bytes = 0_usize;
    for (row, count) in counts.into_iter().enumerate() {
        let more = count.saturating_mul(repeated_bytes + element_bytes);
        if more > MAX_BYTES {
            let reason = format!(
                "`unnest` repeats {repeated_bytes} bytes for each of {count} elements: select fewer columns"
            );
            return Err(DataFusionError::ResourcesExhausted(reason));
        }
        bytes = bytes.saturating_add(more);
        if bytes > AT_ONCE_BYTES && row > 0 {
            return Ok(row);
        }
    }
    Ok(batch.num_rows())
}

/// Innermost elements of the list of each row, 0 where there is none.
fn elements(lists: &dyn Array) -> Result<Vec<usize>> {
    if let Some(nested) =
        lists.as_list_opt::<i32>().filter(|lists| lists.values().as_list_opt::<i32>().is_some())
    {
        let inner = elements(nested.values())?;
        let of_row = |bounds: &[i32]| {
            let at = |bound: i32| usize::try_from(bound).unwrap_or_default();
            inner.get(at(bounds[0])..at(bounds[1])).map_or(0, |counts| counts.iter().sum())
        };
        return Ok(nested.offsets().windows(2).map(of_row).collect());
    }
    if !matches!(lists.data_type(), DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
    {
        return Ok(vec![1; lists.len()]);
    }
    let lengths = cast(&length(lists)?, &DataType::Int64)?;
    let lengths = lengths.as_primitive::<Int64Type>().iter();
    Ok(lengths.map(|length| usize::try_from(length.unwrap_or(0)).unwrap_or_default()).collect())
}

#[cfg(test)]
mod tests {
    use arrow::array::{ListArray, StringArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn few_rows_with_long_lists_are_repeated_at_once() {
        let list = |count: i32| Some((0..count).map(Some).collect::<Vec<_>>());
        let lists =
            ListArray::from_iter_primitive::<Int32Type, _, _>([list(1000), list(1000), None, list(300_000)]);
        let texts = StringArray::from(vec!["x".repeat(20_000); 4]);
        let batch = |first, count| {
            let columns: [(_, ArrayRef); 2] = [
                ("list", Arc::new(lists.slice(first, count))),
                ("text", Arc::new(texts.slice(first, count))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        assert_eq!(rows_at_once(&batch(0, 4), &[0]).unwrap(), 1);
        assert_eq!(rows_at_once(&batch(1, 2), &[0]).unwrap(), 2);
        let error = rows_at_once(&batch(3, 1), &[0]).unwrap_err().to_string();
        assert!(error.contains("for each of 300000 elements"), "{error}");
    }
}
