//! Ranges that a program or a framework puts around its steps.

use std::sync::LazyLock;

use regex::Regex;

/// Names of ranges around steps, the most certain first: of the profilers of PyTorch and XLA, of stallmap, of programs, of
/// requests and batches with their numbers, and without.
const NAMES: [&str; 5] = [
    r"^ProfilerStep#\d+$|#step_num=\d+$",
    r"^stallmap[._]step\b",
    r"(?i)^((train|training|decode|decoding|prefill|inference|forward|generate|generation|model)[ _.-]?)?(step|iteration|iter)[ _.#:-]*\d*$",
    r"(?i)^(([a-z]+[ _.-])?(request|batch|token|frame|query)[ _.#:-]*\d+|.*\]run_training_batch)$",
    r"(?i)^(request|batch|frame|query)$",
];
/// The last kind of name says less than calls of an optimizer, and only where there are as many ranges.
const MIN_PLAIN: usize = 3;

static STEP_NAMES: LazyLock<Vec<Regex>> =
    LazyLock::new(|| NAMES.iter().filter_map(|name| Regex::new(name).ok()).collect());

/// Begins and ends of ranges.
pub(crate) type RangeSpans = Vec<(i64, i64)>;

/// Ranges of one process, by the certainty of their names.
#[derive(Debug, Default)]
pub(crate) struct StepRanges {
    by_name: [Vec<(i64, i64)>; NAMES.len()],
}

impl StepRanges {
    /// Adds a range if it has the name of a step.
    pub(crate) fn add(&mut self, name: &str, span: (i64, i64)) {
        let rank = STEP_NAMES.iter().position(|names| names.is_match(name));
        if let Some(ranges) = rank.and_then(|rank| self.by_name.get_mut(rank)) {
            ranges.push(span);
        }
    }

    /// Ranges in order of their begins, without those inside of others, for each kind of name that has some. The last kind
    /// comes apart.
    pub(crate) fn into_steps(self) -> (Vec<RangeSpans>, RangeSpans) {
        let outermost = |mut ranges: RangeSpans| {
            ranges.sort_by_key(|(begin, end)| (*begin, std::cmp::Reverse(*end)));
            let mut last_end = i64::MIN;
            ranges.retain(|(_, end)| {
                // Times are rounded, so a step can begin just before the end of the one before it.
                let is_outer = *end > last_end;
                last_end = last_end.max(*end);
                is_outer
            });
            ranges
        };
        let [certain @ .., plain] = self.by_name.map(outermost);
        let certain = certain.into_iter().filter(|ranges| !ranges.is_empty()).collect();
        (certain, if plain.len() < MIN_PLAIN { Vec::new() } else { plain })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_ranges_with_names_of_steps() {
        assert_eq!(STEP_NAMES.len(), NAMES.len(), "a name does not compile");
        let mut ranges = StepRanges::default();
        for (name, span) in [
            ("ProfilerStep#8", (20, 30)),
            ("train#step_num=7", (10, 20)),
            ("train_step 3", (1, 9)),
            ("step", (2, 3)),
            ("Optimizer.step#AdamW.step", (4, 5)),
            ("lr_scheduler.step", (5, 6)),
            ("forward", (6, 7)),
            ("request 4", (1, 5)),
            ("request 5", (4, 9)),
            ("request", (9, 10)),
        ] {
            ranges.add(name, span);
        }
        let steps = [vec![(10, 20), (20, 30)], vec![(1, 9)], vec![(1, 5), (4, 9)]];
        assert_eq!(ranges.into_steps(), (steps.to_vec(), Vec::new()));
    }

    #[test]
    fn ranges_without_numbers_are_steps_where_they_are_many() {
        let mut ranges = StepRanges::default();
        for begin in [1, 5, 9] {
            ranges.add("batch", (begin, begin + 3));
            ranges.add("micro_batch", (begin, begin + 1));
        }
        assert_eq!(ranges.into_steps(), (Vec::new(), vec![(1, 4), (5, 8), (9, 12)]));
    }
}
