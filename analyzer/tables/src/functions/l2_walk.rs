//! `l2_walk(kernel_id, address, span_bytes, read_bytes, written_bytes, l2_bytes) OVER (ORDER BY kernel_id, ...)`: what
//! launches find in L2, and what they write back.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array as _, ArrayRef, AsArray as _, Float64Builder, ListBuilder, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::error::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    DocSection, Documentation, PartitionEvaluator, Signature, Volatility, WindowUDFImpl,
};

use super::cache_walk::{CacheWalk, RangeTraffic, TouchedRange};
use super::column_function::list_of;

static DOC: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "Walk of launches through L2. Each row is a range of addresses that a launch touches. Rows of a launch \
                       follow each other, launches in their order. The result is a list: the part of the range's bytes \
                       that L2 held, and the bytes that L2 writes back meanwhile, of the launch's stores and of those before.";
    let syntax = "l2_walk(kernel_id, address, span_bytes, read_bytes, written_bytes, l2_bytes)";
    Documentation::builder(DocSection::default(), description, syntax)
        .with_argument("kernel_id", "The launch.")
        .with_argument("address", "First address of the range.")
        .with_argument("span_bytes", "Bytes from there to its end.")
        .with_argument("read_bytes", "Distinct bytes of it that are read.")
        .with_argument("written_bytes", "Distinct bytes of it that are stored to.")
        .with_argument("l2_bytes", "Bytes of L2.")
        .with_sql_example(
            "SELECT l2_walk(alloc_ordinal, address, size_bytes, 0e0, CAST(size_bytes AS DOUBLE), 5e7) OVER (ORDER BY alloc_ordinal) FROM storage",
        )
        .build()
});

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct L2Walk(Signature);

impl Default for L2Walk {
    fn default() -> Self {
        let (whole, number) = (DataType::UInt64, DataType::Float64);
        let arguments = vec![whole.clone(), whole.clone(), whole, number.clone(), number.clone(), number];
        Self(Signature::exact(arguments, Volatility::Immutable))
    }
}

impl WindowUDFImpl for L2Walk {
    fn name(&self) -> &'static str {
        "l2_walk"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(LaunchWalker))
    }

    fn field(&self, field: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(field.name(), list_of(DataType::Float64), true)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOC)
    }
}

/// Walks through the launches of a partition.
#[derive(Debug)]
struct LaunchWalker;

impl PartitionEvaluator for LaunchWalker {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let whole = |column: usize, row| value::<UInt64Type>(values[column].as_primitive(), row);
        let number = |column: usize, row| value::<Float64Type>(values[column].as_primitive(), row).max(0.0);
        let mut lists = ListBuilder::new(Float64Builder::new());
        let mut walk = None;
        let mut row = 0;
        while row < rows {
            let launch = whole(0, row);
            let begin = row;
            while row < rows && whole(0, row) == launch {
                row += 1;
            }
            let touched: Vec<TouchedRange> = (begin..row)
                .map(|row| TouchedRange {
                    address: whole(1, row),
                    span_bytes: whole(2, row),
                    read_bytes: number(3, row),
                    written_bytes: number(4, row),
                })
                .collect();
            for traffic in walk.get_or_insert_with(|| CacheWalk::new(number(5, begin))).launch(&touched) {
                let RangeTraffic { held_share, written_back_bytes, displaced_bytes } = traffic;
                lists.append_value([held_share, written_back_bytes, displaced_bytes].map(Some));
            }
        }
        Ok(Arc::new(lists.finish()))
    }
}

/// A value, 0 for none.
fn value<T: ArrowPrimitiveType>(column: &PrimitiveArray<T>, row: usize) -> T::Native {
    if column.is_valid(row) { column.value(row) } else { T::Native::default() }
}
