//! Counters of kernels: a capture has one value for each metric of a launch.

use stallmap_schema::word::LossKind;

use crate::trace::model::TraceModel;

impl TraceModel {
    /// Keeps the first of several values of one metric and kernel, and counts further ones.
    pub(crate) fn keep_first_counters(&mut self) {
        self.counters.sort_by(|a, b| (a.kernel, &a.metric).cmp(&(b.kernel, &b.metric)));
        let losses = &mut self.losses;
        self.counters.dedup_by(|counter, first| {
            let is_again = (counter.kernel, &counter.metric) == (first.kernel, &first.metric);
            if is_again {
                let reason = "values of counters behind the first one of their kernel and metric";
                losses.add(LossKind::Source, reason, Some(&counter.metric));
            }
            is_again
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::model::TraceCounter;

    #[test]
    fn a_metric_has_one_value_and_others_are_counted() {
        let mut trace = TraceModel::default();
        for (kernel, metric, value) in [(1, "b", 1.0), (0, "a", 2.0), (1, "b", 3.0), (1, "a", 4.0)] {
            let counter =
                TraceCounter { kernel, metric: metric.into(), value: Some(value), unit: String::new() };
            trace.counters.push(counter);
        }
        trace.keep_first_counters();
        let found: Vec<_> =
            trace.counters.iter().map(|counter| (counter.kernel, &*counter.metric, counter.value)).collect();
        assert_eq!(found, [(0, "a", Some(2.0)), (1, "a", Some(4.0)), (1, "b", Some(1.0))]);
        let lost: Vec<_> = trace.losses.rows().map(|(_, _, count, detail)| (count, detail)).collect();
        assert_eq!(lost, [(1, Some("b"))]);
    }
}
