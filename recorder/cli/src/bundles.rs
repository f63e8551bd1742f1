//! The option `--replay`: the launches that are recorded with their memory.

use std::fmt;
use std::str::FromStr;

use anyhow::anyhow;
use stallmap_config::BundleSelection;

use crate::args::{ProbeSide, RecordOptions, SpaceArg, WhenFullArg};
use crate::exit::RecorderFailure;

/// The selection of `--replay`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BundleOptions {
    /// Number of launches of each kind. All if null.
    pub per_kind: Option<u64>,
    /// Percent of the samples that the selected kernels have together. Any kernel if null.
    pub share_percent: Option<u8>,
}

impl FromStr for BundleOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut selection = Self { per_kind: Some(1), share_percent: None };
        for word in text.split(',') {
            match word.split_once(':').unwrap_or((word, "")) {
                ("distinct", "") => selection.per_kind = Some(1),
                ("distinct", count) => {
                    let count = count.parse().ok().filter(|&count| count > 0);
                    selection.per_kind = Some(count.ok_or("`distinct:N` needs a count from 1 on")?);
                }
                ("all", "") => selection.per_kind = None,
                ("share", percent) => {
                    let percent = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
                    selection.share_percent = Some(percent.ok_or("`share:PERCENT` needs 1 to 100")?);
                }
                _ => return Err(format!("`{word}` is none of distinct, distinct:N, all, share:PERCENT")),
            }
        }
        Ok(selection)
    }
}

impl fmt::Display for BundleOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.per_kind {
            Some(count) => write!(formatter, "distinct:{count}")?,
            None => formatter.write_str("all")?,
        }
        self.share_percent.map_or(Ok(()), |percent| write!(formatter, ",share:{percent}"))
    }
}

/// The options on their way into the program.
pub(crate) fn config(options: &RecordOptions) -> Option<BundleSelection> {
    let volume = &options.volume;
    volume.replay.map(|selection| BundleSelection {
        per_kind: selection.per_kind,
        kernels: volume.replay_kernels.clone(),
        only: None,
        budget_bytes: volume.replay_budget,
        records_after: volume.replay_values,
    })
}

/// Refuses options that exclude `--replay`, before the program runs.
pub(crate) fn check(options: &RecordOptions) -> Result<(), RecorderFailure> {
    let Some(selection) = options.volume.replay else { return Ok(()) };
    let refused = |text: &str, hint: &str| Err(RecorderFailure::before(anyhow!("{text}")).hint(hint));
    let lacks = |side| !options.only.is_empty() && !options.only.contains(&side);
    if lacks(ProbeSide::Accesses) {
        return refused("--replay needs the accesses: --only leaves them out", "add accesses to --only");
    }
    if selection.share_percent.is_some() && lacks(ProbeSide::Samples) {
        return refused("--replay=share needs the samples: --only leaves them out", "add samples to --only");
    }
    let partial = [
        (options.volume.blocks.is_some(), "--blocks"),
        (options.method.when_full == WhenFullArg::Drop, "--when-full drop"),
        (!options.volume.spaces.contains(&SpaceArg::Global), "--spaces without global"),
    ];
    match partial.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => refused(
            &format!("--replay needs every access to device memory: {option} leaves some out"),
            "select launches instead, with --kernels or --replay-kernels",
        ),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_make_a_selection() {
        let read = |text: &str| text.parse::<BundleOptions>().map(|selection| selection.to_string());
        assert_eq!(read("distinct").unwrap(), "distinct:1");
        assert_eq!(read("distinct:3,share:90").unwrap(), "distinct:3,share:90");
        assert_eq!(read("share:100,all").unwrap(), "all,share:100");
        for wrong in ["", "distinct:0", "share", "share:0", "share:101", "all:2", "some", "all,"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
