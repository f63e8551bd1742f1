//! The gamma distribution: its cumulative function, and that one's inverse.
//!
//! The tail of a Poisson distribution is a gamma's: P(X >= k | rate) = P(k, rate). Its shape need not be an integer, so
//! scaled counts have intervals too.

use super::beta::ln_gamma;

/// More than shapes of 10^5 need.
const MAX_TERMS: u32 = 100_000;
/// Steps of Newton's method, which starts close.
const MAX_STEPS: u32 = 50;
/// Replacement for zero in divisions.
const TINY: f64 = 1e-300;

/// P(shape, x): the part of a gamma distribution of scale 1 below x. The shape is positive.
fn cumulative(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (shape * x.ln() - x - ln_gamma(shape)).exp();
    // The series converges on this side of the mean, the fraction on the other.
    if x < shape + 1.0 { front * series(shape, x) } else { 1.0 - front * fraction(shape, x) }
}

/// The x with this part of a gamma distribution below it, from a guess.
pub(super) fn quantile(part: f64, shape: f64, guess: f64) -> f64 {
    let mut x = guess.max(1e-3);
    for _ in 0..MAX_STEPS {
        let density = ((shape - 1.0) * x.ln() - x - ln_gamma(shape)).exp();
        let step = (cumulative(shape, x) - part) / density.max(TINY);
        // One step goes no further than half of the way to zero.
        let next = (x - step).max(0.5 * x).min(2.0 * x + 1.0);
        if (next - x).abs() <= 1e-13 * x {
            return next;
        }
        x = next;
    }
    x
}

/// Abramowitz and Stegun 6.5.29.
fn series(shape: f64, x: f64) -> f64 {
    let (mut sum, mut term) = (1.0 / shape, 1.0 / shape);
    for index in 1..MAX_TERMS {
        term *= x / (shape + f64::from(index));
        sum += term;
        if term <= 1e-16 * sum {
            break;
        }
    }
    sum
}

/// The continued fraction of the upper part (Abramowitz and Stegun 6.5.31), by Lentz's method.
fn fraction(shape: f64, x: f64) -> f64 {
    let away_from_zero = |number: f64| if number.abs() < TINY { TINY } else { number };
    let mut base = x + 1.0 - shape;
    let mut upper = 1.0 / TINY;
    let mut lower = 1.0 / away_from_zero(base);
    let mut product = lower;
    for index in 1..MAX_TERMS {
        let index = f64::from(index);
        let part = -index * (index - shape);
        base += 2.0;
        lower = 1.0 / away_from_zero(part * lower + base);
        upper = away_from_zero(base + part / upper);
        product *= lower * upper;
        if (lower * upper - 1.0).abs() < 1e-15 {
            break;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exponential distribution has the shape 1, and a sum of two of them the shape 2.
    #[test]
    fn parts_are_those_of_known_distributions() {
        for x in [0.1_f64, 0.9, 2.5, 7.0] {
            assert!((cumulative(1.0, x) - (1.0 - (-x).exp())).abs() < 1e-14, "{x}");
            assert!((cumulative(2.0, x) - (1.0 - (1.0 + x) * (-x).exp())).abs() < 1e-14, "{x}");
        }
        for (part, shape) in [(0.025, 0.5), (0.025, 7.3), (0.975, 40.0), (0.5, 90_000.0)] {
            assert!((cumulative(shape, quantile(part, shape, shape)) - part).abs() < 1e-10, "{part} {shape}");
        }
    }
}
