//! `sum` and `avg` of floating-point numbers, whose results do not depend on the order of rows: see [`ExactSum`].
//!
//! They replace DataFusion's functions, to which every other type goes.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::builder::{Float64Builder, ListBuilder};
use arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, Float64Array, UInt64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, Expr, GroupsAccumulator, Operator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs,
};

use super::exact::ExactSum;

/// One of the two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SumFunction {
    /// DataFusion's function of that name.
    other: Arc<AggregateUDF>,
    result: SumUse,
}

/// The use of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SumUse {
    Sum,
    Average,
}

impl SumFunction {
    pub(super) fn sum() -> Self {
        Self { other: sum_udaf(), result: SumUse::Sum }
    }

    pub(super) fn average() -> Self {
        Self { other: avg_udaf(), result: SumUse::Average }
    }
}

/// True if rows of these types are summed here.
fn is_exact(inputs: &[FieldRef], is_distinct: bool) -> bool {
    !is_distinct && matches!(inputs, [input] if *input.data_type() == DataType::Float64)
}

impl AggregateUDFImpl for SumFunction {
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

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.other.coerce_types(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if !is_exact(arguments.input_fields, arguments.is_distinct) {
            return self.other.state_fields(arguments);
        }
        let name = |part| format_state_name(arguments.name, part);
        let parts = Field::new_list(name("parts"), Field::new_list_field(DataType::Float64, true), false);
        Ok(vec![Field::new(name("count"), DataType::UInt64, false).into(), parts.into()])
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !is_exact(arguments.expr_fields, arguments.is_distinct) {
            return self.other.accumulator(arguments);
        }
        Ok(Box::new(RunningSum { sum: ExactSum::default(), result: self.result }))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !is_exact(arguments.expr_fields, arguments.is_distinct) {
            return self.other.create_sliding_accumulator(arguments);
        }
        self.accumulator(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        is_exact(arguments.expr_fields, arguments.is_distinct)
            || self.other.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if !is_exact(arguments.expr_fields, arguments.is_distinct) {
            return self.other.create_groups_accumulator(arguments);
        }
        Ok(Box::new(GroupSums { sums: Vec::new(), heap_bytes: 0, result: self.result }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.other.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        argument: &Expr,
        operator: Operator,
        literal: &Expr,
        is_left: bool,
    ) -> Result<Option<Expr>> {
        self.other.simplify_expr_op_literal(function, argument, operator, literal, is_left)
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs) -> Option<ScalarValue> {
        self.other.value_from_stats(statistics)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.other.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }
}

impl SumUse {
    /// The result of a sum. None without terms.
    fn result(self, sum: &ExactSum) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "an average is rounded")]
        let count = sum.count as f64;
        (sum.count > 0).then(|| match self {
            Self::Sum => sum.value(),
            Self::Average => sum.value() / count,
        })
    }
}

/// One sum: without groups, and in windows.
#[derive(Debug)]
struct RunningSum {
    sum: ExactSum,
    result: SumUse,
}

impl Accumulator for RunningSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0].as_primitive::<Float64Type>().iter().flatten().for_each(|term| self.sum.add(term));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0].as_primitive::<Float64Type>().iter().flatten().for_each(|term| self.sum.remove(term));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for_each_state(states, |_, count, parts| self.sum.merge(count, parts.iter().copied()));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        state(std::slice::from_ref(&self.sum))
            .iter()
            .map(|array| ScalarValue::try_from_array(array, 0))
            .collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.result.result(&self.sum)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sum.heap_bytes()
    }
}

/// A sum for each group.
#[derive(Debug)]
struct GroupSums {
    sums: Vec<ExactSum>,
    /// Bytes that the sums have on the heap: DataFusion asks for the size after each batch of rows, and to visit all
    /// groups then would be quadratic.
    heap_bytes: usize,
    result: SumUse,
}

impl GroupSums {
    /// Changes the sum of one group.
    fn change(&mut self, group: usize, change: impl FnOnce(&mut ExactSum)) {
        let sum = &mut self.sums[group];
        let before = sum.heap_bytes();
        change(sum);
        self.heap_bytes = (self.heap_bytes + sum.heap_bytes()).saturating_sub(before);
    }

    /// Takes the sums of groups that are complete.
    fn take(&mut self, groups: EmitTo) -> Vec<ExactSum> {
        let taken = groups.take_needed(&mut self.sums);
        self.heap_bytes =
            self.heap_bytes.saturating_sub(taken.iter().map(ExactSum::heap_bytes).sum::<usize>());
        taken
    }
}

impl GroupsAccumulator for GroupSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize_with(total, ExactSum::default);
        let terms = values[0].as_primitive::<Float64Type>();
        for (row, (term, group)) in terms.iter().zip(groups).enumerate() {
            if let Some(term) = term
                && is_selected(filter, row)
            {
                self.change(*group, |sum| sum.add(term));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.sums.resize_with(total, ExactSum::default);
        for_each_state(states, |row, count, parts| {
            self.change(groups[row], |sum| sum.merge(count, parts.iter().copied()));
        });
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = self.take(emit_to);
        Ok(Arc::new(sums.iter().map(|sum| self.result.result(sum)).collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(state(&self.take(emit_to)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let terms = values[0].as_primitive::<Float64Type>().iter().enumerate();
        let sums = terms.map(|(row, term)| match term.filter(|_| is_selected(filter, row)) {
            Some(term) => ExactSum::from_parts(1, [term]),
            None => ExactSum::default(),
        });
        Ok(state(&sums.collect::<Vec<_>>()))
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<ExactSum>() + self.heap_bytes
    }
}

fn is_selected(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

/// Sums as columns: counts, and lists of parts.
fn state(sums: &[ExactSum]) -> Vec<ArrayRef> {
    let counts = UInt64Array::from_iter_values(sums.iter().map(|sum| sum.count));
    let mut parts = ListBuilder::new(Float64Builder::with_capacity(2 * sums.len()));
    for sum in sums {
        sum.parts().for_each(|part| parts.values().append_value(part));
        parts.append(true);
    }
    vec![Arc::new(counts), Arc::new(parts.finish())]
}

/// Calls `each` with row, count and parts of every sum in these columns.
fn for_each_state(states: &[ArrayRef], mut each: impl FnMut(usize, u64, &[f64])) {
    let counts = states[0].as_primitive::<UInt64Type>().values();
    let lists = states[1].as_list::<i32>();
    let parts = lists.values().as_primitive::<Float64Type>().values();
    for (row, (count, ends)) in counts.iter().zip(lists.value_offsets().windows(2)).enumerate() {
        let range = ends[0].unsigned_abs() as usize..ends[1].unsigned_abs() as usize;
        each(row, *count, &parts[range]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size is known without a look at each group, and is that of the groups.
    #[test]
    fn the_size_is_kept_up_to_date() {
        let mut many = GroupSums { sums: Vec::new(), heap_bytes: 0, result: SumUse::Sum };
        let is_true =
            |many: &GroupSums| many.heap_bytes == many.sums.iter().map(ExactSum::heap_bytes).sum::<usize>();
        for scale in [1.0, 1e-20, 1e-40, 1e20, 1e40] {
            let terms: ArrayRef =
                Arc::new((1..100_u8).map(|term| Some(f64::from(term) * scale)).collect::<Float64Array>());
            let groups: Vec<usize> = (0..99).map(|row| row % 7).collect();
            many.update_batch(&[terms], &groups, None, 7).unwrap();
            assert!(is_true(&many));
        }
        assert!(many.heap_bytes > 0, "some sums need more than two parts");
        many.evaluate(EmitTo::First(3)).unwrap();
        assert!(is_true(&many) && many.sums.len() == 4);
        let states = many.state(EmitTo::All).unwrap();
        assert_eq!(many.heap_bytes, 0);
        many.merge_batch(&states, &[0, 1, 2, 1], 3).unwrap();
        assert!(is_true(&many) && many.heap_bytes > 0);
    }
}
