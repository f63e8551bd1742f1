//! Ranges that a program or a framework puts around its steps.

use std::sync::LazyLock;

use regex::Regex;

/// Names of ranges around steps, the most certain first: of the profilers of PyTorch and XLA, of stallmap, of programs,
/// and of requests and batches with their numbers.
const NAMES: [&str; 4] = [
    r"^ProfilerStep#\d+$|#step_num=\d+$",
    r"^stallmap[._]step\b",
    r"(?i)^((train|training|decode|decoding|prefill|inference|forward|generate|generation|model)[ _.-]?)?(step|iteration|iter)[ _.#:-]*\d*$",
    r"(?i)^(([a-z]+[ _.-])?(request|batch|token|frame|query)[ _.#:-]*\d+|.*\]run_training_batch)$",
];

static STEP_NAMES: LazyLock<Vec<Regex>> =
    LazyLock::new(|| NAMES.iter().filter_map(|name| Regex::new(name).ok()).collect());

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

    /// Ranges in order of their begins, without those inside of others, for each kind of name that has some.
    pub(crate) fn into_steps(self) -> impl Iterator<Item = Vec<(i64, i64)>> {
        let outermost = |mut ranges: Vec<(i64, i64)>| {
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
        self.by_name.into_iter().map(outermost).filter(|ranges| !ranges.is_empty())
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
        let steps: Vec<_> = ranges.into_steps().collect();
        assert_eq!(steps, [vec![(10, 20), (20, 30)], vec![(1, 9)], vec![(1, 5), (4, 9)]]);
    }
}
