//! Rows too wide for the terminal: numbers and the first text stay columns, other text goes below the first.

use std::io::{self, Write};

use super::{GAP, NARROWEST, TextColumn, TextTable, total};
use crate::output::paint::{TextPaint, TextRole};
use crate::output::shorten::{ShortenSide, shorten, width};

/// Between pieces of text in one line.
const BETWEEN: &str = " · ";
/// Minimum of further texts. Fewer are shortened instead.
const LEAST_OTHERS: usize = 2;
/// With less room than this, one record per row reads better.
const LEAST_ROOM: usize = 40;

/// Remaining columns with their widths.
pub(super) struct ColumnFold<'a> {
    numbers: Vec<(&'a TextColumn, usize)>,
    first: &'a TextColumn,
    others: Vec<&'a TextColumn>,
    room: usize,
}

impl<'a> ColumnFold<'a> {
    /// Fold of a table into so many columns. None if it does not fold.
    pub(super) fn for_table(table: &'a TextTable, limit: usize) -> Option<Self> {
        let (numbers, texts): (Vec<_>, Vec<_>) = table.columns.iter().partition(|column| column.is_number);
        let (&first, others) = texts.split_first()?;
        let numbers: Vec<_> = numbers.into_iter().map(|column| (column, column.natural())).collect();
        let widths: Vec<usize> = numbers.iter().map(|(_, width)| *width).collect();
        let room = limit.saturating_sub(total(&widths) + GAP.len());
        let folds = table.can_fold && others.len() >= LEAST_OTHERS && room >= LEAST_ROOM;
        folds.then(|| Self { numbers, first, others: others.to_vec(), room })
    }

    /// Draws the folded table.
    pub(super) fn draw(&self, table: &TextTable, out: &mut dyn Write, paint: TextPaint) -> io::Result<()> {
        let name = self.first.natural().min(self.room);
        let rule = |width: usize| "─".repeat(width);
        let headers = self.line(|column| &column.header, name);
        writeln!(out, "{}", paint.text(TextRole::Header, headers.trim_end()))?;
        let rules = self.numbers.iter().map(|&(_, width)| rule(width)).chain([rule(name)]);
        writeln!(out, "{}", paint.text(TextRole::Dim, &rules.collect::<Vec<_>>().join(GAP)))?;
        let indent = " ".repeat(self.numbers.iter().map(|(_, width)| width + GAP.len()).sum());
        for row in 0..table.rows() {
            let line = self.line(|column| &column.cells[row], name);
            writeln!(out, "{}", paint.text(table.role(row), line.trim_end()))?;
            for line in self.below(row) {
                writeln!(out, "{indent}{}", paint.text(TextRole::Dim, &line))?;
            }
        }
        Ok(())
    }

    fn line(&self, text: impl Fn(&'a TextColumn) -> &'a str, name: usize) -> String {
        let numbers = self.numbers.iter().map(|&(column, width)| column.place(text(column), width));
        numbers.chain([self.first.place(text(self.first), name)]).collect::<Vec<_>>().join(GAP)
    }

    /// The other texts of a row, each with its header, filled into lines.
    fn below(&self, row: usize) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for column in self.others.iter().filter(|column| column.cells[row] != "-") {
            let label = width(&column.header) + 1;
            let room = self.room.saturating_sub(label).max(NARROWEST);
            let how = if column.shorten == ShortenSide::Never { ShortenSide::End } else { column.shorten };
            let text = column.cells[row].replace('\n', " ");
            let piece = format!("{} {}", column.header, shorten(&text, room, how));
            match lines.last_mut() {
                Some(line) if width(line) + BETWEEN.len() + width(&piece) <= self.room => {
                    line.push_str(BETWEEN);
                    line.push_str(&piece);
                }
                _ => lines.push(piece),
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn text_goes_below_the_first() {
        let row = |cells: [&str; 5]| cells.map(str::to_owned);
        let rows = vec![
            row([
                "1,234",
                "weight",
                "float32 16x16",
                "model.py:10 forward",
                "a/very/long/path/to/train.py:12 step",
            ]),
            row(["5", "(no tensor)", "-", "-", "-"]),
        ];
        let mut table = TextTable::of_text(["samples", "tensor", "type", "allocated at", "waited at"], rows)
            .numbers(&[0]);
        table.can_fold = true;
        table.columns[4].shorten = ShortenSide::Start;
        let expected = "\
samples  tensor
───────  ───────────
  1,234  weight
         type float32 16x16
         allocated at model.py:10 forward
         waited at …long/path/to/train.py:12 step
      5  (no tensor)
";
        check(&table, Some(49), expected);
    }
}
