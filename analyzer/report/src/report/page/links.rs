//! Anchors of the page, and links to them. A link exists only where the page has its target.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_console::answer::SectionAnswer;
use stallmap_console::exit::Outcome;
use stallmap_console::rows;

use super::ask::read;

rows! {
    /// A row of the section of lines.
    #[derive(Clone, Debug)]
    struct LinkedLine {
        line: Option<String>,
        forward_line: Option<String>,
    }

    /// A row of the section of tensors.
    #[derive(Clone, Debug)]
    struct LinkedTensor {
        tensor_id: Option<u64>,
    }
}

/// The anchors of a page.
#[derive(Clone, Debug, Default)]
pub(super) struct PageLinks {
    anchors: BTreeSet<String>,
    /// Rows of lines, by the text that names them elsewhere.
    lines: BTreeMap<String, String>,
    /// Rows of code, by function and pc.
    instructions: BTreeMap<(u64, u64), String>,
    /// The instruction of a tensor's picture.
    waits: BTreeMap<u64, (u64, u64)>,
}

impl PageLinks {
    /// Adds an anchor.
    pub(super) fn add(&mut self, anchor: String) {
        self.anchors.insert(anchor);
    }

    /// Adds the rows of the section of lines.
    pub(super) fn add_lines(&mut self, lines: &SectionAnswer) -> Outcome<()> {
        for (row, line) in read::<LinkedLine>(lines)?.into_iter().enumerate() {
            let name = line.forward_line.map(|line| format!("{line} (grad)")).or(line.line);
            if let Some(name) = name {
                self.lines.entry(name).or_insert_with(|| line_anchor(row));
            }
        }
        Ok(())
    }

    /// Adds the rows of the section of tensors.
    pub(super) fn add_tensors(&mut self, tensors: &SectionAnswer) -> Outcome<()> {
        let rows = read::<LinkedTensor>(tensors)?;
        self.anchors.extend(rows.into_iter().filter_map(|row| row.tensor_id).map(tensor_anchor));
        Ok(())
    }

    /// Adds rows of code.
    pub(super) fn add_code(&mut self, places: impl IntoIterator<Item = ((u64, u64), String)>) {
        for (place, anchor) in places {
            self.instructions.entry(place).or_insert(anchor);
        }
    }

    /// Adds the instruction that waits for a tensor.
    pub(super) fn add_wait(&mut self, tensor: u64, place: (u64, u64)) {
        self.waits.entry(tensor).or_insert(place);
    }

    /// An anchor, if the page has it.
    pub(super) fn found(&self, anchor: String) -> Option<String> {
        self.anchors.contains(&anchor).then_some(anchor)
    }

    /// The row of a line such as `train.py:31 forward (grad)`.
    pub(super) fn line(&self, name: &str) -> Option<&str> {
        self.lines.get(name).map(String::as_str)
    }

    /// A kernel: its stalls, else its code.
    pub(super) fn kernel(&self, function: u64) -> Option<String> {
        self.found(kernel_anchor(function)).or_else(|| self.found(code_anchor(function)))
    }

    /// The row of an instruction.
    pub(super) fn instruction(&self, place: (u64, u64)) -> Option<&str> {
        self.instructions.get(&place).map(String::as_str)
    }

    /// The instruction that waits for a tensor.
    pub(super) fn wait(&self, tensor: u64) -> Option<(u64, u64)> {
        self.waits.get(&tensor).copied()
    }
}

/// The anchor of a kernel's stalls.
pub(super) fn kernel_anchor(function: u64) -> String {
    format!("kernel-{function:016x}")
}

/// The anchor of a kernel's code.
pub(super) fn code_anchor(function: u64) -> String {
    format!("code-{function:016x}")
}

/// The anchor of a tensor's row.
pub(super) fn tensor_anchor(tensor: u64) -> String {
    format!("cost-{tensor}")
}

/// The anchor of a row of lines.
pub(super) fn line_anchor(row: usize) -> String {
    format!("line-{}", row + 1)
}

/// The anchor of a finding, by its rank from 0.
pub(super) fn finding_anchor(row: usize) -> String {
    format!("finding-{}", row + 1)
}

/// The anchor of a stall reason's meaning.
pub(super) fn reason_anchor(reason: &str) -> String {
    format!("reason-{reason}")
}
