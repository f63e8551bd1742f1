//! Steps, set-up and end of a program with a timeline, in words.

use stallmap_console::output::number::{bytes, nanoseconds};
use stallmap_console::rows;

use super::facts::RunFacts;

/// Less than this part of the time is left out of a sentence.
const MIN_SHARE: f64 = 0.01;
/// A step that is longer than this, as a part of the median, is named.
const SLOW_STEP: f64 = 1.1;
/// A part of set-up that is named takes this part of it, or more.
const LARGE_PART: f64 = 0.2;

rows! {
    /// The phases of a program. Empty without a timeline.
    #[derive(Clone, Debug, Default)]
    pub(super) struct PhaseShares {
        pub(super) steps: u64,
        pub(super) step_ns: Option<f64>,
        pub(super) slowest_ns: Option<f64>,
        pub(super) slowest_step: Option<u64>,
        pub(super) compute_share: Option<f64>,
        pub(super) collective_share: Option<f64>,
        pub(super) copy_share: Option<f64>,
        pub(super) idle_share: Option<f64>,
        pub(super) wait_share: Option<f64>,
        pub(super) input_share: Option<f64>,
        pub(super) launch_share: Option<f64>,
        pub(super) copy_kind: Option<String>,
        pub(super) copy_bytes: Option<f64>,
        pub(super) copy_ns: Option<f64>,
        pub(super) setup_ns: Option<f64>,
        pub(super) setup_part: Option<String>,
        pub(super) setup_part_ns: Option<f64>,
        pub(super) end_ns: Option<f64>,
    }
}

impl PhaseShares {
    /// Part of the time with work on the GPU.
    pub(super) fn busy_share(&self) -> Option<f64> {
        self.idle_share.map(|idle| 1.0 - idle)
    }

    /// The time of a step, and what it goes to. None without steps that were timed.
    pub(super) fn sentence(&self, run: &RunFacts) -> Option<String> {
        let time = self.step_ns.filter(|_| self.steps > 0)?;
        let step = run.step_noun(1);
        let article = if step.starts_with('i') { "An" } else { "A" };
        let slow = self.slowest_ns.filter(|slowest| self.steps > 1 && *slowest > SLOW_STEP * time);
        let slowest = slow
            .zip(self.slowest_step)
            .map(|(slowest, at)| format!(", up to {} in number {at}", nanoseconds(slowest)));
        let median = if self.steps > 1 { " in the median" } else { "" };
        let parts = self.parts();
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        Some(format!(
            "{article} {step} takes {}{median}{}{parts}.",
            nanoseconds(time),
            slowest.unwrap_or_default()
        ))
    }

    /// Parts of the time of another phase. None without a timeline.
    pub(super) fn phase_sentence(&self, name: &str) -> Option<String> {
        let parts = self.parts();
        (!parts.is_empty()).then(|| format!("The GPU's time in phase {name}: {}.", parts.join(", ")))
    }

    /// Parts of the time, the largest first.
    fn parts(&self) -> Vec<String> {
        let late = self.wait_share.unwrap_or_default()
            + self.input_share.unwrap_or_default()
            + self.launch_share.unwrap_or_default();
        let other = self.idle_share.map(|idle| (idle - late).max(0.0));
        let mut parts = [
            ("kernels", self.compute_share),
            ("collectives alone", self.collective_share),
            ("copies alone", self.copy_share),
            ("idle before late launches", self.launch_share),
            ("idle before late copies to the GPU", self.input_share),
            ("idle after the host waited for the GPU", self.wait_share),
            (if late > 0.0 { "idle for other reasons" } else { "idle" }, other),
        ];
        parts.sort_by(|a, b| b.1.unwrap_or_default().total_cmp(&a.1.unwrap_or_default()));
        let is_large = |share: &f64| *share >= MIN_SHARE;
        let text = |(name, share): (&str, Option<f64>)| {
            Some(format!("{:.0} % {name}", share.filter(is_large)? * 100.0))
        };
        parts.into_iter().filter_map(text).collect()
    }

    /// The direction that copies most, its bytes and rate, where steps are copies above all.
    pub(super) fn copies(&self) -> Option<String> {
        let most = [self.compute_share, self.collective_share, self.idle_share];
        let copies = self.copy_share.filter(|copies| most.iter().flatten().all(|other| other < copies))?;
        let (bytes_moved, ns) =
            self.copy_bytes.zip(self.copy_ns).filter(|(_, ns)| copies > 0.0 && *ns > 0.0)?;
        let kind = self.copy_kind.as_deref().unwrap_or("memory").replace('_', " ");
        let (each, part) = match self.steps {
            0 => (bytes_moved, "all"),
            steps => (bytes_moved / steps as f64, "each"),
        };
        Some(format!(
            "Copies {kind} move {} in {part}, at {} per second.",
            bytes(each),
            bytes(bytes_moved * 1e9 / ns)
        ))
    }

    /// Set-up with its largest part, and the end.
    pub(super) fn outside(&self) -> Option<String> {
        let setup = self.setup_ns.filter(|ns| self.steps > 0 && *ns > 0.0);
        let large = self.setup_part_ns.zip(setup).filter(|(part, whole)| *part >= LARGE_PART * *whole);
        let part = large
            .zip(self.setup_part.as_deref())
            .map(|((part, _), name)| format!(", {} of it {name}", nanoseconds(part)));
        let setup = setup.map(|ns| format!("set-up of {}{}", nanoseconds(ns), part.unwrap_or_default()));
        let end = self.end_ns.filter(|ns| self.steps > 0 && *ns > 0.0);
        let end = end.map(|ns| format!("{} after the last step", nanoseconds(ns)));
        let texts: Vec<String> = setup.into_iter().chain(end).collect();
        (!texts.is_empty()).then(|| format!("Not counted: {}.", texts.join(", and ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases() -> PhaseShares {
        PhaseShares {
            steps: 9,
            step_ns: Some(33.1e6),
            slowest_ns: Some(41e6),
            slowest_step: Some(7),
            compute_share: Some(0.39),
            copy_share: Some(0.004),
            idle_share: Some(0.606),
            wait_share: Some(0.05),
            launch_share: Some(0.52),
            setup_ns: Some(1.6e9),
            setup_part: Some("before launches at train.py:12".to_owned()),
            setup_part_ns: Some(1.2e9),
            ..PhaseShares::default()
        }
    }

    #[test]
    fn a_step_has_a_time_and_its_parts() {
        let run = RunFacts { steps: 10, found_by: "range".to_owned(), ..RunFacts::default() };
        assert_eq!(
            phases().sentence(&run).unwrap(),
            "A step takes 33.1 ms in the median, up to 41 ms in number 7: 52 % idle before late launches, 39 % kernels, \
             5 % idle after the host waited for the GPU, 4 % idle for other reasons."
        );
        assert_eq!(PhaseShares::default().sentence(&run), None);
    }

    #[test]
    fn copies_are_named_where_they_take_most() {
        let busy = PhaseShares {
            copy_share: Some(0.7),
            copy_kind: Some("host_to_device".to_owned()),
            copy_bytes: Some(9.0 * 1024.0 * 1024.0),
            copy_ns: Some(9e6),
            ..phases()
        };
        let text = "Copies host to device move 1 MiB in each, at 1,000 MiB per second.";
        assert_eq!(busy.copies().unwrap(), text);
        assert_eq!(phases().copies(), None);
    }

    #[test]
    fn set_up_has_its_largest_part() {
        assert_eq!(
            phases().outside().unwrap(),
            "Not counted: set-up of 1.60 s, 1.20 s of it before launches at train.py:12."
        );
        assert_eq!(PhaseShares::default().outside(), None);
    }
}
