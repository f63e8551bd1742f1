//! Functions that SQL lacks, one file each, and sums that do not depend on the order of rows.

mod beta;
pub mod bounded;
mod cache_walk;
mod collective_kind;
mod column_function;
pub mod concat;
pub mod constant;
pub mod cost_from;
mod element_index;
mod exact;
pub mod first_words;
mod gamma;
mod growing;
mod hex;
pub mod hex_text;
mod kernel_label;
mod l2_walk;
mod lane_count;
mod line_label;
pub mod memory;
mod operator;
mod path_match;
pub mod patterns;
mod poisson;
mod rate_ratio;
mod shape;
mod sum;

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

/// Every scalar function, with its documentation.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let mut all = vec![
        ScalarUDF::from(collective_kind::function()),
        cost_from::CostFrom::default().function(),
        ScalarUDF::from(element_index::ElementIndex::default()),
        ScalarUDF::from(hex::function()),
        ScalarUDF::from(kernel_label::function()),
        ScalarUDF::from(lane_count::function()),
        ScalarUDF::from(line_label::function()),
        ScalarUDF::from(path_match::function()),
    ];
    all.extend(poisson::functions().map(ScalarUDF::from));
    all.extend(rate_ratio::functions().map(ScalarUDF::from));
    all.push(ScalarUDF::from(shape::function()));
    all.into_iter().map(Arc::new).collect()
}

/// Every window function, with its documentation.
pub fn windows() -> [WindowUDF; 1] {
    [WindowUDF::from(l2_walk::L2Walk::default())]
}

/// Aggregates that replace DataFusion's of the same names.
pub fn aggregates() -> impl Iterator<Item = AggregateUDF> {
    let sums = [sum::SumFunction::sum(), sum::SumFunction::average()].map(AggregateUDF::from);
    sums.into_iter().chain(growing::functions())
}
