//! `poisson_low(count)` and `poisson_high(count)`: the confidence interval of the rate that a count shows.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};

use super::column_function::{ColumnFunction, doc, exact};
use super::gamma;

/// The normal distribution's 97.5 % point.
const Z: f64 = 1.959_963_984_540_054;
/// The part of the distribution below the lower end.
const TAIL: f64 = 0.025;
/// Counts from which the approximation has the digits of the exact interval.
const LARGE: f64 = 100_000.0;

/// Both functions.
pub(super) fn functions() -> [ColumnFunction; 2] {
    let function = |name, end, compute| {
        let description = format!(
            "The {end} end of the 95 % confidence interval of the rate that a Poisson count shows (exact)."
        );
        ColumnFunction {
            name,
            signature: exact([DataType::Float64]),
            returns: DataType::Float64,
            doc: doc(description, format!("{name}(count)"))
                .with_argument("count", "The count, which may be a fraction.")
                .with_sql_example(format!("SELECT {name}(100)"))
                .build(),
            compute,
        }
    };
    [
        function("poisson_low", "lower", |columns| Ok(ends(columns, low))),
        function("poisson_high", "upper", |columns| Ok(ends(columns, high))),
    ]
}

fn ends(columns: &[ArrayRef], end: fn(f64) -> f64) -> ArrayRef {
    let ends: Float64Array = columns[0].as_primitive::<Float64Type>().unary(end);
    Arc::new(ends)
}

fn low(count: f64) -> f64 {
    if count <= 0.0 { 0.0 } else { end(count, TAIL, -Z) }
}

fn high(count: f64) -> f64 {
    end(count.max(0.0) + 1.0, 1.0 - TAIL, Z)
}

/// Wilson and Hilferty's formula, from there to the exact end for all but large counts.
fn end(count: f64, part: f64, z: f64) -> f64 {
    let near = count * (1.0 - 1.0 / (9.0 * count) + z / (3.0 * count.sqrt())).powi(3);
    if count < LARGE { gamma::quantile(part, count, near) } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_those_of_the_exact_interval() {
        // From the chi-squared distribution.
        let known = [
            (0.0, (0.0, 3.688_879)),
            (1.0, (0.025_318, 5.571_643)),
            (10.0, (4.795_389, 18.390_356)),
            (100.0, (81.363_991, 121.626_794)),
        ];
        for (count, exact) in known {
            assert!((low(count) - exact.0).abs() < 2e-6, "{count}: {}", low(count));
            assert!((high(count) - exact.1).abs() < 2e-6, "{count}: {}", high(count));
        }
        // Below and above the limit of the approximation.
        assert!((low(LARGE - 1e-3) - low(LARGE)).abs() < 0.01);
    }
}
