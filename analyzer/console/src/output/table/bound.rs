//! Bounds of cells where no terminal limits the width.

use super::TextTable;
use crate::output::shorten::{ShortenSide, cut};

/// Columns of names, by a part of their header. Names of kernels have thousands of characters.
const NAMES: [&str; 3] = ["kernel", "name", "function"];
/// Columns of a cell in a file or a pipe,
const LONGEST_CELL: usize = 400;
/// and of a name.
const LONGEST_NAME: usize = 120;

impl TextTable {
    /// The same table with bounded cells, for a file or a pipe: the middle of a longer one is cut and counted. Cells of
    /// several lines stay complete.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        for column in self.columns.iter_mut().filter(|column| column.shorten != ShortenSide::Never) {
            let is_name = NAMES.iter().any(|name| column.header.contains(name));
            let most = if is_name { LONGEST_NAME } else { LONGEST_CELL };
            column.cells.iter_mut().for_each(|cell| *cell = cut(cell, most));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::number::grouped;
    use crate::output::shorten::width;

    #[test]
    fn cells_are_bounded_and_say_what_was_cut() {
        let long = format!("begin{}end", "x".repeat(5_000));
        let rows = vec![[long.clone(), long.clone(), "9".repeat(500)], ["a", "b", "c"].map(str::to_owned)];
        let mut table = TextTable::of_text(["kernel", "sentence", "sum"], rows).numbers(&[2]).bounded();
        for (column, most) in [(0, LONGEST_NAME), (1, LONGEST_CELL)] {
            let cell = &table.columns[column].cells[0];
            assert!((most - 2..=most).contains(&width(cell)), "{cell}");
            assert!(cell.starts_with("begin") && cell.ends_with("end"), "{cell}");
            let shown: usize = cell.split('…').step_by(2).map(width).sum();
            let cut = format!("…{} characters…", grouped((5_008 - shown) as i128));
            assert!(cell.contains(&cut), "{cell} has no {cut}");
        }
        assert_eq!(width(&table.columns[2].cells[0]), 500, "numbers are whole");
        assert_eq!(table.columns.pop().map(|column| column.cells.len()), Some(2));
    }
}
