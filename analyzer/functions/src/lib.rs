//! Scalar functions that SQL lacks, one file each.

mod beta;
mod hex;
mod kernel_label;
mod lane_count;
mod path_match;
mod poisson;
mod rate_ratio;
mod shape;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

/// Every function, with its documentation.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    [
        ScalarUDF::from(hex::Hex::default()),
        ScalarUDF::from(kernel_label::KernelLabel::default()),
        ScalarUDF::from(lane_count::LaneCount::default()),
        ScalarUDF::from(path_match::PathMatch::default()),
        ScalarUDF::from(poisson::Poisson::low()),
        ScalarUDF::from(poisson::Poisson::high()),
        ScalarUDF::from(rate_ratio::RateRatio::low()),
        ScalarUDF::from(rate_ratio::RateRatio::high()),
        ScalarUDF::from(rate_ratio::RateRatio::p()),
        ScalarUDF::from(shape::Shape::default()),
    ]
    .map(Arc::new)
    .into()
}
