//! Data that a source lacks, or that was left out, with its number.

use std::collections::BTreeMap;

use stallmap_schema::word::LossKind;

/// The begin of losses of data that a source never has.
pub const ABSENT: &str = "not in the imported file";

/// Bytes of a reason and of an example: parts of them are texts of the file.
const MAX_LOSS_BYTES: usize = 1 << 10;

/// Losses by kind and reason, with their number and one example.
#[derive(Debug, Default)]
pub struct TraceLosses(BTreeMap<(&'static str, String), (LossKind, u64, Option<String>)>);

impl TraceLosses {
    /// Counts one thing.
    pub fn add(&mut self, kind: LossKind, reason: &str, detail: Option<&str>) {
        self.add_many(kind, reason, 1, detail);
    }

    /// Counts several things. None is no loss.
    pub fn add_many(&mut self, kind: LossKind, reason: &str, count: u64, detail: Option<&str>) {
        if count > 0 {
            let first = || (kind, 0, detail.map(|detail| short(detail).to_owned()));
            self.0.entry((kind.word(), short(reason).to_owned())).or_insert_with(first).1 += count;
        }
    }

    /// Names a kind of data that the source never has.
    pub fn lacks(&mut self, what: &str) {
        self.add(LossKind::Source, &format!("{ABSENT}: {what}"), None);
    }

    /// Adds the losses of another recording of the same source. Data that the source never has stay one loss.
    pub fn extend(&mut self, other: Self) {
        for (key, (kind, count, detail)) in other.0 {
            let is_absent = key.1.starts_with(ABSENT);
            let own = self.0.entry(key).or_insert((kind, 0, detail));
            own.1 = if is_absent { own.1.max(count) } else { own.1 + count };
        }
    }

    /// The losses in the order of their table.
    pub fn rows(&self) -> impl Iterator<Item = (LossKind, &str, u64, Option<&str>)> {
        self.0
            .iter()
            .map(|((_, reason), (kind, count, detail))| (*kind, reason.as_str(), *count, detail.as_deref()))
    }
}

/// The part of a text within the bound of losses.
fn short(text: &str) -> &str {
    let end = (0..=MAX_LOSS_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_file_are_short_in_losses() {
        let mut losses = TraceLosses::default();
        let long = "é".repeat(MAX_LOSS_BYTES);
        losses.add(LossKind::Source, &long, Some(&long));
        losses.add(LossKind::Source, "short", None);
        let lengths: Vec<(usize, Option<usize>)> =
            losses.rows().map(|(_, reason, _, detail)| (reason.len(), detail.map(str::len))).collect();
        assert_eq!(lengths, [(5, None), (MAX_LOSS_BYTES, Some(MAX_LOSS_BYTES))]);
    }
}
