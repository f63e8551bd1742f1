//! Functions that SQL lacks, one file each, and sums that do not depend on the order of rows.

mod beta;
pub mod bounded;
mod collective_kind;
pub mod concat;
pub mod cost_from;
mod element_index;
mod exact;
pub mod first_words;
mod gamma;
mod hex;
pub mod hex_text;
mod kernel_label;
mod lane_count;
pub mod memory;
mod path_match;
mod poisson;
mod rate_ratio;
mod shape;
mod sum;

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

/// Every scalar function, with its documentation.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    [
        ScalarUDF::from(collective_kind::KindOfCollective::default()),
        cost_from::CostFrom::default().function(),
        ScalarUDF::from(element_index::ElementIndex::default()),
        ScalarUDF::from(hex::HexFunction::default()),
        ScalarUDF::from(kernel_label::KernelLabel::default()),
        ScalarUDF::from(lane_count::LaneCount::default()),
        ScalarUDF::from(path_match::PathMatch::default()),
        ScalarUDF::from(poisson::PoissonFunction::low()),
        ScalarUDF::from(poisson::PoissonFunction::high()),
        ScalarUDF::from(rate_ratio::RateRatio::low()),
        ScalarUDF::from(rate_ratio::RateRatio::high()),
        ScalarUDF::from(rate_ratio::RateRatio::p()),
        ScalarUDF::from(shape::ShapeFunction::default()),
    ]
    .map(Arc::new)
    .into()
}

/// Aggregates that replace DataFusion's of the same names.
pub fn aggregates() -> [AggregateUDF; 2] {
    [sum::SumFunction::sum(), sum::SumFunction::average()].map(AggregateUDF::from)
}
