//! `rate_ratio_low`, `rate_ratio_high`, `rate_ratio_p`: the significance of the difference of two counts.
//!
//! Given the sum of two Poisson counts, the second one is binomial (Przyborowski and Wilenski, 1940): with a and b
//! counted over exposures s and t, its probability is p = r t / (s + r t), where r is the ratio of rates. Clopper and
//! Pearson's exact interval of p (1934) gives that of r. The same binomial's tails give the p-value of r = 1, doubled
//! for both sides. So the interval contains 1 exactly if p is above 5 %. Overdispersed counts are divided by their
//! dispersion factor beforehand (quasi-Poisson).

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::error::Result;

use super::beta::{cumulative, quantile};
use super::column_function::{ColumnFunction, doc, exact};

/// Probability outside of an interval at each end.
const TAIL: f64 = 0.025;

/// Two counts, each over its exposure.
#[derive(Clone, Copy, Debug)]
struct ExposedCounts {
    a: f64,
    a_exposure: f64,
    b: f64,
    b_exposure: f64,
}

/// The three functions.
pub(super) fn functions() -> [ColumnFunction; 3] {
    let function = |name, description, compute| ColumnFunction {
        name,
        signature: exact([const { DataType::Float64 }; 4]),
        returns: DataType::Float64,
        doc: doc(description, format!("{name}(a, a_exposure, b, b_exposure)"))
            .with_argument("a", "The first count, which may be a fraction.")
            .with_argument("a_exposure", "Its exposure: steps, launches, time, or 1 if equal.")
            .with_argument("b", "The second count.")
            .with_argument("b_exposure", "Its exposure.")
            .with_sql_example(format!("SELECT {name}(100, 1, 130, 1)"))
            .build(),
        compute,
    };
    [
        function(
            "rate_ratio_low",
            "The lower end of the exact 95 % confidence interval of the ratio of two Poisson rates, the second's over the first's.",
            |columns| answers(columns, ExposedCounts::low),
        ),
        function(
            "rate_ratio_high",
            "The upper end of the exact 95 % confidence interval of the ratio of two Poisson rates, infinity if the first count is 0.",
            |columns| answers(columns, ExposedCounts::high),
        ),
        function(
            "rate_ratio_p",
            "The p-value of two Poisson counts having one rate (exact, two-sided): a number from 0 to 1.",
            |columns| answers(columns, ExposedCounts::p),
        ),
    ]
}

fn answers(columns: &[ArrayRef], answer: fn(ExposedCounts) -> f64) -> Result<ArrayRef> {
    let columns: Vec<&Float64Array> = columns.iter().map(AsArray::as_primitive::<Float64Type>).collect();
    let [a, s, b, t] = columns[..] else { return datafusion::common::internal_err!("four arguments") };
    let rows = a.iter().zip(s).zip(b.iter().zip(t));
    let answers = rows.map(|((a, s), (b, t))| {
        let counts = ExposedCounts { a: a?, a_exposure: s?, b: b?, b_exposure: t? };
        counts.are_counts().then(|| answer(counts))
    });
    Ok(Arc::new(answers.collect::<Float64Array>()))
}

impl ExposedCounts {
    /// True if there is a result: numbers from 0 up, over a positive exposure.
    fn are_counts(self) -> bool {
        let is_count = |count: f64| count.is_finite() && count >= 0.0;
        let is_exposure = |exposure: f64| exposure.is_finite() && exposure > 0.0;
        is_count(self.a) && is_count(self.b) && is_exposure(self.a_exposure) && is_exposure(self.b_exposure)
    }

    fn low(self) -> f64 {
        if self.b <= 0.0 { 0.0 } else { self.ratio(quantile(TAIL, self.b, self.a + 1.0)) }
    }

    fn high(self) -> f64 {
        if self.a <= 0.0 { f64::INFINITY } else { self.ratio(quantile(1.0 - TAIL, self.b + 1.0, self.a)) }
    }

    /// The ratio of rates at which the binomial's chance is this.
    fn ratio(self, chance: f64) -> f64 {
        chance / (1.0 - chance) * self.a_exposure / self.b_exposure
    }

    fn p(self) -> f64 {
        let chance = self.b_exposure / (self.a_exposure + self.b_exposure);
        let at_least = cumulative(chance, self.b, self.a + 1.0);
        let at_most = cumulative(1.0 - chance, self.a, self.b + 1.0);
        (2.0 * at_least.min(at_most)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(a: f64, b: f64) -> ExposedCounts {
        ExposedCounts { a, a_exposure: 1.0, b, b_exposure: 1.0 }
    }

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 2e-4 * expected.abs(), "{found}, expected {expected}");
    }

    #[test]
    fn values_are_those_of_the_exact_test() {
        // R: poisson.test(c(b, a), c(t, s)): p-values by doubling, intervals as it prints them.
        // 8 of 9: binomial tail 10 / 512; 6 of 6: 1 / 64.
        close(counts(1.0, 8.0).p(), 2.0 * 10.0 / 512.0);
        close(counts(0.0, 6.0).p(), 2.0 / 64.0);
        close(counts(5.0, 5.0).p(), 1.0);
        // Clopper and Pearson's 0.443905 to 0.974789 of 8 of 10.
        close(counts(2.0, 8.0).low(), 0.443_905 / (1.0 - 0.443_905));
        close(counts(2.0, 8.0).high(), 0.974_789 / (1.0 - 0.974_789));
        // Twice the exposure halves the ratio of rates.
        let twice = ExposedCounts { b_exposure: 2.0, ..counts(2.0, 8.0) };
        close(twice.low(), counts(2.0, 8.0).low() / 2.0);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "they are exact")]
    fn nothing_is_known_of_no_counts() {
        let none = counts(0.0, 0.0);
        assert_eq!([none.low(), none.high(), none.p()], [0.0, f64::INFINITY, 1.0]);
        assert!(!counts(-1.0, 3.0).are_counts() && !counts(f64::NAN, 3.0).are_counts());
        assert!(!ExposedCounts { a_exposure: 0.0, ..counts(1.0, 1.0) }.are_counts());
    }

    proptest! {
        #[test]
        fn swapping_mirrors_and_the_interval_agrees_with_the_test(
            a in 0_u32..2000, b in 0_u32..2000, s in 0.1_f64..10.0, t in 0.1_f64..10.0,
        ) {
            let one = ExposedCounts { a: a.into(), a_exposure: s, b: b.into(), b_exposure: t };
            let other = ExposedCounts { a: b.into(), a_exposure: t, b: a.into(), b_exposure: s };
            prop_assert!((one.p() - other.p()).abs() < 1e-9);
            if b > 0 {
                prop_assert!((one.low() * other.high() - 1.0).abs() < 1e-6);
            }
            let holds_one = one.low() <= 1.0 && one.high() >= 1.0;
            prop_assert!(holds_one == (one.p() > 0.05) || (one.p() - 0.05).abs() < 1e-6);
        }
    }
}
