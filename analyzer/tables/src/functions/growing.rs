//! Aggregates over windows that look at the whole frame of each row.
//!
//! A window keeps a result for each of its rows, and DataFusion reserves no memory for them: lists of 100,000 rows are
//! 10^10 elements. It computes a batch of rows without a pause: medians of large frames take minutes.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, Signature,
};

use crate::functions::bounded::MAX_BYTES;
use crate::planning::bounds::ending;

/// The functions.
pub(crate) fn functions() -> impl Iterator<Item = AggregateUDF> {
    [array_agg_udaf(), string_agg_udaf(), median_udaf(), percentile_cont_udaf()]
        .into_iter()
        .map(|other| AggregateUDF::from(GrowingFunction { other }))
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct GrowingFunction {
    /// DataFusion's function of that name.
    other: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for GrowingFunction {
    fn name(&self) -> &str {
        self.other.name()
    }

    fn aliases(&self) -> &[String] {
        self.other.aliases()
    }

    fn signature(&self) -> &Signature {
        self.other.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.other.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.other.return_field(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.other.coerce_types(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.other.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(GrowingResult { inner: self.other.accumulator(arguments)?, made_bytes: None }))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let inner = self.other.create_sliding_accumulator(arguments)?;
        Ok(Box::new(GrowingResult { inner, made_bytes: None }))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.other.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.other.create_groups_accumulator(arguments)
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        is_beneficial: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let other = AggregateUDF::clone(&self.other).with_beneficial_ordering(is_beneficial)?;
        Ok(other.map(|other| Arc::new(Self { other: Arc::new(other) }) as _))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.other.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.other.reverse_udf() {
            ReversedUDAF::Reversed(other) => ReversedUDAF::Reversed(Arc::new(Self { other }.into())),
            other => other,
        }
    }

    fn is_nullable(&self) -> bool {
        self.other.is_nullable()
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.other.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.other.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }
}

/// A result of which a window takes one for each row.
#[derive(Debug)]
struct GrowingResult {
    inner: Box<dyn Accumulator>,
    /// Bytes of the results after the first, which a group has alone. None before it.
    made_bytes: Option<u64>,
}

impl Accumulator for GrowingResult {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ending::check()?;
        let result = self.inner.evaluate()?;
        let bytes = result.size().saturating_sub(size_of::<ScalarValue>()) as u64;
        let made_bytes = self.made_bytes.map_or(0, |made| made.saturating_add(bytes));
        if made_bytes > MAX_BYTES {
            let reason =
                format!("the lists of a window take more than {} MiB: shorten its frame", MAX_BYTES >> 20);
            return Err(DataFusionError::ResourcesExhausted(reason));
        }
        self.made_bytes = Some(made_bytes);
        Ok(result)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.inner.size()
    }
}
