//! The beta distribution: its cumulative function, and that one's inverse.
//!
//! The tail of a binomial is a beta's: P(X >= k | n, p) = I_p(k, n - k + 1). A beta's parameters need not be integers,
//! so scaled counts have intervals too.

/// Lanczos' coefficients for g = 7, of nine terms.
const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// More than counts of 10^9 need.
const MAX_TERMS: u32 = 200_000;
/// Halvings that exhaust the unit interval.
const MAX_STEPS: u32 = 200;
/// Close enough for the next digit not to matter.
const NEAR: f64 = 1e-13;
/// Replacement for zero in divisions.
const TINY: f64 = 1e-300;

/// I_x(a, b): the part of a beta distribution below x. `a` and `b` are positive, or one of them is 0: then all of it
/// lies at that end.
pub(super) fn cumulative(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || b <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 || a <= 0.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    // The fraction converges on this side of the mean. The other is its mirror.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// The x with this part of a beta distribution below it.
pub(super) fn quantile(part: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..MAX_STEPS {
        let middle = 0.5 * (low + high);
        if high - low <= NEAR * middle {
            break;
        }
        if cumulative(middle, a, b) < part { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's method.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_zero = |number: f64| if number.abs() < TINY { TINY } else { number };
    let mut upper = 1.0;
    let mut lower = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut product = lower;
    for term in 1..MAX_TERMS {
        let term = f64::from(term);
        let twice = a + 2.0 * term;
        let even = term * (b - term) * x / ((twice - 1.0) * twice);
        let odd = -(a + term) * (a + b + term) * x / (twice * (twice + 1.0));
        let mut factor = 1.0;
        for part in [even, odd] {
            lower = 1.0 / away_from_zero(1.0 + part * lower);
            upper = away_from_zero(1.0 + part / upper);
            factor = lower * upper;
            product *= factor;
        }
        if (factor - 1.0).abs() < 1e-15 {
            break;
        }
    }
    product
}

/// The logarithm of the gamma function, of a number above 0.
pub(super) fn ln_gamma(number: f64) -> f64 {
    if number < 0.5 {
        // Gamma(x) = Gamma(x + 1) / x.
        return ln_gamma(number + 1.0) - number.ln();
    }
    let [first, others @ ..] = LANCZOS;
    let x = number - 1.0;
    let sum = others.iter().zip(1_u32..).fold(first, |sum, (term, at)| sum + term / (x + f64::from(at)));
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1e-3), "{found}, expected {expected}");
    }

    /// P(X >= k) of a binomial, by summation.
    fn at_least(k: u32, n: u32, p: f64) -> f64 {
        let term = |i: u32| {
            let choose = (1..=i).fold(1.0, |c, j| c * f64::from(n - i + j) / f64::from(j));
            choose * p.powi(i.cast_signed()) * (1.0 - p).powi((n - i).cast_signed())
        };
        (k..=n).map(term).sum()
    }

    #[test]
    fn it_is_the_tail_of_a_binomial() {
        for (k, n, p) in [(1, 1, 0.3), (3, 10, 0.5), (8, 9, 0.5), (16, 21, 0.5), (40, 60, 0.8), (2, 60, 0.01)]
        {
            close(cumulative(p, f64::from(k), f64::from(n - k + 1)), at_least(k, n, p));
        }
    }

    #[test]
    fn quantiles_turn_it_around() {
        for (a, b) in [(0.3, 4.0), (1.0, 1.0), (5.5, 17.0), (1e4, 2e4), (3.0, 1e7)] {
            for part in [0.025, 0.5, 0.975] {
                close(cumulative(quantile(part, a, b), a, b), part);
            }
        }
        // Clopper and Pearson's interval of 8 of 10, as textbooks have it: 0.4439, 0.9748.
        assert!((quantile(0.025, 8.0, 3.0) - 0.443_905).abs() < 1e-5);
        assert!((quantile(0.975, 9.0, 2.0) - 0.974_789).abs() < 1e-5);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "they are exact")]
    fn ends_are_certain() {
        assert_eq!([cumulative(0.5, 0.0, 3.0), cumulative(0.5, 3.0, 0.0)], [1.0, 0.0]);
        assert_eq!([cumulative(0.0, 2.0, 3.0), cumulative(1.0, 2.0, 3.0)], [0.0, 1.0]);
    }
}
