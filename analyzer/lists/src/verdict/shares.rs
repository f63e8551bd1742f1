//! All samples in a few shares that add up to 100 %.

use stallmap_console::output::number::bytes;

use super::facts::{LineShare, ReasonFacts, TensorShare, TouchedShare};

/// A file's name of more letters, without a separator, is a hash.
const MIN_HASH: usize = 40;

/// Type of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareKind {
    /// Memory stalls of one tensor or allocation.
    Tensor,
    /// Memory stalls of other tensors.
    OtherTensors,
    /// Memory stalls without a tensor.
    Memory,
    /// All samples of a line or kernel.
    Line,
    /// Samples of one line in a module of its model.
    Module,
    /// Everything else.
    Other,
}

/// A part of all samples.
#[derive(Clone, Debug)]
pub struct SampleShare {
    /// Its type.
    pub kind: ShareKind,
    /// Whole percent. Those of all shares add up to 100.
    pub percent: u32,
    /// The exact part of 1.
    pub part: f64,
    /// Its name.
    pub label: String,
    /// Type and shape of a tensor, text of a line, line of a module or kernel, or empty.
    pub detail: String,
    /// Location of the wait, or empty.
    pub place: String,
}

impl SampleShare {
    fn new(kind: ShareKind, share: Option<f64>, label: String) -> Self {
        let (detail, place) = (String::new(), String::new());
        Self { kind, percent: 0, part: share.unwrap_or_default(), label, detail, place }
    }

    /// The percentage as text: never 0 for something.
    pub fn percent(&self) -> String {
        if self.percent == 0 && self.part > 0.0 { "<1 %".to_owned() } else { format!("{} %", self.percent) }
    }
}

/// Shares by tensor, and the rest by reason.
pub(super) fn by_tensor(tensors: &[TensorShare], reasons: &[ReasonFacts]) -> Vec<SampleShare> {
    let share = |row: &TensorShare| {
        let label = row.label.clone().unwrap_or_default();
        match row.kind.as_str() {
            "tensor" => SampleShare {
                detail: row.shape.as_deref().map(shape).unwrap_or_default(),
                place: row.waited_at.as_deref().map(place).unwrap_or_default(),
                ..SampleShare::new(ShareKind::Tensor, row.share, label)
            },
            "tensors" => {
                let count = format!("{} other {}", row.objects, noun(tensors, row.objects));
                SampleShare::new(ShareKind::OtherTensors, row.share, count)
            }
            "memory" => SampleShare::new(ShareKind::Memory, row.share, label.replace("; ", ", ")),
            _ => SampleShare::new(ShareKind::Other, row.share, not_memory(reasons)),
        }
    };
    with_percents(tensors.iter().map(share).collect())
}

/// Shares of the sectors that requests touch, where nothing measured time.
pub(super) fn by_accesses(touched: &[TouchedShare]) -> Vec<SampleShare> {
    let share = |row: &TouchedShare| {
        let kind =
            if row.tensor.starts_with("other (") { ShareKind::OtherTensors } else { ShareKind::Tensor };
        SampleShare {
            detail: row.shape.as_deref().map(shape).unwrap_or_default(),
            place: row.born_at.as_deref().map(place).unwrap_or_default(),
            ..SampleShare::new(kind, row.share, row.tensor.clone())
        }
    };
    with_percents(touched.iter().map(share).collect())
}

/// The noun of targets: a program without a framework has allocations.
pub(super) fn noun(tensors: &[TensorShare], count: u64) -> &'static str {
    let mut targets = tensors.iter().filter_map(|row| row.target.as_deref()).peekable();
    let has_tensors = targets.peek().is_none() || targets.any(|target| target != "outside any tensor");
    match (has_tensors, count) {
        (true, 1) => "tensor",
        (true, _) => "tensors",
        (false, 1) => "allocation",
        (false, _) => "allocations",
    }
}

/// Shares by line, module or kernel.
pub(super) fn by_line(lines: &[LineShare]) -> Vec<SampleShare> {
    let has = |kind: &str| lines.iter().any(|row| row.kind == kind);
    let (one, more) = match (has("module"), has("line")) {
        (true, _) => ("module or line", "modules and lines"),
        (false, true) if has("kernel") => ("line or kernel", "lines and kernels"),
        (false, true) => ("line", "lines"),
        (false, false) => ("kernel", "kernels"),
    };
    let share = |row: &LineShare| {
        let Some(label) = &row.label else {
            let noun = if row.objects == 1 { one } else { more };
            return SampleShare::new(ShareKind::Other, row.share, format!("{} other {noun}", row.objects));
        };
        let text = row.text.clone().unwrap_or_default();
        let (kind, detail) = match row.kind.as_str() {
            "module" => (ShareKind::Module, place(&text)),
            "kernel" => (ShareKind::Line, place(&text)),
            _ => (ShareKind::Line, text),
        };
        SampleShare { detail, ..SampleShare::new(kind, row.share, label.clone()) }
    };
    with_percents(lines.iter().map(share).collect())
}

/// The most frequent reasons that are not memory.
fn not_memory(reasons: &[ReasonFacts]) -> String {
    let frequent = reasons.iter().filter(|reason| !reason.is_memory).take(2);
    let frequent = frequent.map(|reason| {
        format!("{} {:.0} %", reason.name.replace('_', " "), reason.share.unwrap_or_default() * 100.0)
    });
    let frequent: Vec<String> = frequent.collect();
    if frequent.is_empty() { "not memory".to_owned() } else { format!("not memory: {}", frequent.join(", ")) }
}

/// Whole percents by the largest remainder: they add up to 100.
fn with_percents(mut shares: Vec<SampleShare>) -> Vec<SampleShare> {
    if shares.iter().all(|share| share.part <= 0.0) {
        return Vec::new();
    }
    let mut missing: u32 = 100;
    for share in &mut shares {
        share.percent =
            (0..=100).rev().find(|percent| f64::from(*percent) <= share.part * 100.0).unwrap_or(0);
        missing = missing.saturating_sub(share.percent);
    }
    let mut order: Vec<usize> = (0..shares.len()).collect();
    let remainder = |share: &SampleShare| share.part * 100.0 - f64::from(share.percent);
    order.sort_by(|&a, &b| remainder(&shares[b]).total_cmp(&remainder(&shares[a])));
    for (_, at) in (0..missing).zip(order.into_iter().cycle()) {
        shares[at].percent += 1;
    }
    shares
}

/// A type and shape for reading: strides become a word, bytes have units.
pub(super) fn shape(text: &str) -> String {
    if let Some(count) = text.strip_suffix(" bytes").and_then(|count| count.parse().ok()) {
        return bytes(count);
    }
    match text.split_once(" strides ") {
        Some((shape, _)) => format!("{shape}, strided"),
        None => text.to_owned(),
    }
}

/// A location without its function: `train.py:31`, or with `(grad)`.
pub(super) fn place(text: &str) -> String {
    let (place, gradient) = match text.strip_suffix(" (grad)") {
        Some(place) => (place, " (grad)"),
        None => (text, ""),
    };
    let file = place.split_once(' ').map_or(place, |(file, _)| file);
    if is_line(file) { format!("{file}{gradient}") } else { text.to_owned() }
}

/// True for a line of a file that a compiler wrote under a hash.
pub(super) fn is_generated(text: &str) -> bool {
    let Some((path, _)) = text.split_once(".py:") else { return false };
    let name = path.rsplit('/').next().unwrap_or(path);
    name.len() > MIN_HASH
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte))
}

/// True for `file:31`.
pub(super) fn is_line(text: &str) -> bool {
    let number = text.trim_end_matches(" (grad)").rsplit_once(':').map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_lose_functions() {
        assert_eq!(place("train.py:31 add"), "train.py:31");
        assert_eq!(shape("268435456 bytes"), "256 MiB");
        assert_eq!(shape("float32 4x4 strides 1,4"), "float32 4x4, strided");
        assert_eq!(place("train.py:31 add (grad)"), "train.py:31 (grad)");
        assert_eq!(place("elementwise_kernel[add f32]"), "elementwise_kernel[add f32]");
        assert!(is_line("train.py:31 (grad)") && !is_line("a::b"));
    }

    #[test]
    fn hashes_are_no_names_of_files() {
        let hash = "23/c23wfohwbooxq2ajprkjnd55r2lhvl7w333w3dc5eq5koautp54n.py:1701 call";
        assert!(is_generated(hash) && !is_generated("train.py:31 forward"));
    }

    #[test]
    fn a_module_stands_with_its_line() {
        let row = |kind: &str, label: Option<&str>, text: &str, share| LineShare {
            kind: kind.to_owned(),
            label: label.map(str::to_owned),
            text: Some(text.to_owned()),
            objects: 3,
            share: Some(share),
        };
        let lines =
            [row("module", Some("layers.*.mlp"), "train.py:7 <module>", 0.75), row("other", None, "", 0.25)];
        let shares = by_line(&lines);
        assert_eq!((shares[0].kind, shares[0].detail.as_str()), (ShareKind::Module, "train.py:7"));
        assert_eq!(shares[1].label, "3 other modules and lines");
    }

    proptest! {
        #[test]
        fn percents_add_up(parts in prop::collection::vec(0.0..1e6_f64, 1..12)) {
            let total: f64 = parts.iter().sum();
            prop_assume!(total > 0.0);
            let shares = parts.iter().map(|part| SampleShare::new(ShareKind::Line, Some(part / total), String::new()));
            let shares = with_percents(shares.collect());
            prop_assert_eq!(shares.iter().map(|share| share.percent).sum::<u32>(), 100);
            prop_assert!(shares.iter().all(|share| (f64::from(share.percent) - share.part * 100.0).abs() < 1.0 + 1e-6));
        }
    }
}
