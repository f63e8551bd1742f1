//! `poisson_low(count)` and `poisson_high(count)`: the confidence interval of the rate that a count shows.

use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::gamma;

/// The normal distribution's 97.5 % point.
const Z: f64 = 1.959_963_984_540_054;
/// The part of the distribution below the lower end.
const TAIL: f64 = 0.025;
/// Counts from which the approximation has the digits of the exact interval.
const LARGE: f64 = 100_000.0;

fn doc(name: &str, end: &str) -> Documentation {
    let description = format!(
        "The {end} end of the 95 % confidence interval of the rate that a Poisson count shows (exact)."
    );
    Documentation::builder(DocSection::default(), description, format!("{name}(count)"))
        .with_argument("count", "The count, which may be a fraction.")
        .with_sql_example(format!("SELECT {name}(100)"))
        .build()
}

static LOW: LazyLock<Documentation> = LazyLock::new(|| doc("poisson_low", "lower"));
static HIGH: LazyLock<Documentation> = LazyLock::new(|| doc("poisson_high", "upper"));

/// One of the two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct PoissonFunction {
    signature: Signature,
    is_high: bool,
}

impl PoissonFunction {
    pub(super) fn low() -> Self {
        Self { signature: Signature::exact(vec![DataType::Float64], Volatility::Immutable), is_high: false }
    }

    pub(super) fn high() -> Self {
        Self { is_high: true, ..Self::low() }
    }
}

impl ScalarUDFImpl for PoissonFunction {
    fn name(&self) -> &'static str {
        if self.is_high { "poisson_high" } else { "poisson_low" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let end = if self.is_high { high } else { low };
        let ends: Float64Array = arrays[0].as_primitive::<Float64Type>().unary(end);
        Ok(ColumnarValue::Array(Arc::new(ends)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(if self.is_high { &HIGH } else { &LOW })
    }
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
