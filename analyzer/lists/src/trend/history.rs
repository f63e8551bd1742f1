//! Noise from history: what the variation of earlier captures lets expect of others.

/// Quantiles of Student's t distribution for 99 % of both sides, by degrees of freedom from 1.
const QUANTILES: [f64; 10] = [63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169];
/// The same for more degrees than these: that of 11, which is not too small for any.
const LAST_QUANTILE: f64 = 3.106;
/// Captures that it takes to know a variation.
pub(crate) const MIN_CAPTURES: usize = 3;

/// Values of a baseline and of the captures that are judged.
#[derive(Clone, Debug, Default)]
pub(crate) struct CaptureHistory {
    pub(crate) base: Vec<f64>,
    pub(crate) head: Vec<f64>,
}

/// A change of a mean with its 99 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HistoryChange {
    pub(crate) base: f64,
    pub(crate) head: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl CaptureHistory {
    /// True if the baseline has captures enough to know its variation.
    pub(crate) fn knows_noise(&self) -> bool {
        self.base.len() >= MIN_CAPTURES
    }

    /// The change. Its interval is infinite where the variation is unknown.
    pub(crate) fn change(&self) -> HistoryChange {
        let (base, head) = (mean(&self.base), mean(&self.head));
        let error = if self.knows_noise() {
            let degrees = self.base.len() - 1;
            let square = |value: &f64| (value - base) * (value - base);
            let variance = self.base.iter().map(square).sum::<f64>() / degrees as f64;
            let count = |values: &[f64]| values.len().max(1) as f64;
            let parts = 1.0 / count(&self.base) + 1.0 / count(&self.head);
            quantile(degrees) * (variance * parts).sqrt()
        } else {
            f64::INFINITY
        };
        HistoryChange { base, head, low: head - base - error, high: head - base + error }
    }
}

impl HistoryChange {
    /// True if no change is within the interval.
    pub(crate) fn is_noise(&self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }
}

fn quantile(degrees: usize) -> f64 {
    QUANTILES.get(degrees.wrapping_sub(1)).copied().unwrap_or(LAST_QUANTILE)
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_students_t() {
        let base = vec![100.0, 102.0, 98.0, 101.0, 99.0];
        let change = CaptureHistory { base: base.clone(), head: vec![104.0] }.change();
        // s = 1.5811, t(4) = 4.604: 4.604 * 1.5811 * sqrt(1 / 5 + 1) = 7.974.
        assert!((change.low - (4.0 - 7.974)).abs() < 0.01, "{change:?}");
        assert!(change.is_noise());
        assert!(!CaptureHistory { base, head: vec![110.0] }.change().is_noise());
        let few = CaptureHistory { base: vec![100.0, 100.0], head: vec![200.0] };
        assert!(!few.knows_noise() && few.change().is_noise());
    }
}
