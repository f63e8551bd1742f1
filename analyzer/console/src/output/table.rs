//! Tables: aligned columns that fit the terminal.

mod bound;
mod fold;

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;

use self::fold::ColumnFold;
use super::paint::{TextPaint, TextRole};
use super::shorten::{ShortenSide, shorten, width, wrap};
use super::value::{self, NumberFormat};

/// Between columns.
const GAP: &str = "  ";
/// Before advice.
const ARROW: &str = "→ ";
/// Columns that a ranked table drops to fit, in this order: intervals, samples, counts, time.
const DROPPED: [&[&str]; 4] = [
    &["low", "high"],
    &["samples", "memory samples"],
    &["tensors", "launches", "lost launches", "objects", "replays", "bytes"],
    &["time"],
];
/// Columns that make a table ranked.
const RANKED: [&str; 2] = ["share", "saving"];
/// No column that can be shortened becomes narrower than this,
const NARROWEST: usize = 12;
/// or than this if there is another way.
const COMFORTABLE: usize = 40;

/// A table of text.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    columns: Vec<TextColumn>,
    /// True if further text columns may move below the first if the width is too small.
    can_fold: bool,
}

/// A column of text.
#[derive(Clone, Debug)]
struct TextColumn {
    header: String,
    is_number: bool,
    shorten: ShortenSide,
    cells: Vec<String>,
}

/// Size and style of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableCanvas {
    /// Maximum width. None for lines of any length.
    pub width: Option<usize>,
    /// Colours.
    pub paint: TextPaint,
}

/// Shape of a table of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableShape {
    /// Columns if they fit the canvas, else records.
    #[default]
    Fitting,
    /// Columns of any width.
    Columns,
    /// A line for each cell.
    Records,
}

impl TextTable {
    /// A table of a query's rows.
    pub fn from_batches(batches: &[RecordBatch], look: NumberFormat) -> Result<Self, ArrowError> {
        let mut table = Self { can_fold: look == NumberFormat::Report, ..Self::default() };
        for batch in batches {
            if table.columns.is_empty() {
                table.columns =
                    batch.schema().fields().iter().map(|field| TextColumn::new(field, look)).collect();
            }
            for (column, cells) in table.columns.iter_mut().zip(value::columns(batch, look)?) {
                if cells.iter().any(|cell| cell.contains('\n')) {
                    column.shorten = ShortenSide::Never;
                }
                column.cells.extend(cells);
            }
        }
        Ok(table)
    }

    /// A table of text: its headers, then its rows.
    pub fn of_text<const N: usize>(headers: [&str; N], rows: Vec<[String; N]>) -> Self {
        let mut columns: Vec<TextColumn> = headers
            .iter()
            .map(|header| TextColumn {
                header: (*header).to_owned(),
                is_number: false,
                shorten: ShortenSide::End,
                cells: Vec::new(),
            })
            .collect();
        for row in rows {
            for (column, cell) in columns.iter_mut().zip(row) {
                column.cells.push(cell);
            }
        }
        Self { columns, can_fold: false }
    }

    /// The same table with columns of numbers at these positions.
    #[must_use]
    pub fn numbers(mut self, positions: &[usize]) -> Self {
        for &position in positions {
            if let Some(column) = self.columns.get_mut(position) {
                column.is_number = true;
                column.shorten = ShortenSide::Never;
            }
        }
        self
    }

    /// The same table with columns at these positions that are never shortened.
    #[must_use]
    pub fn whole(mut self, positions: &[usize]) -> Self {
        for &position in positions {
            if let Some(column) = self.columns.get_mut(position) {
                column.shorten = ShortenSide::Never;
            }
        }
        self
    }

    /// The same table with a column of sentences broken into lines to fit the canvas.
    #[must_use]
    pub fn prose(mut self, header: &str, canvas: TableCanvas) -> Self {
        let room = self.room(header, canvas);
        for column in self.columns.iter_mut().filter(|column| column.header == header) {
            for cell in &mut column.cells {
                *cell = wrap(cell, room);
            }
            column.shorten = ShortenSide::Never;
        }
        self
    }

    /// The same table with the advice for each sentence below it, after an arrow, both broken into lines.
    #[must_use]
    pub fn advice(mut self, sentence: &str, advice: &str, canvas: TableCanvas) -> Self {
        let Some(at) = self.columns.iter().position(|column| column.header == advice) else { return self };
        let below = self.columns.remove(at).cells;
        let room = self.room(sentence, canvas).saturating_sub(width(ARROW));
        let mut table = self.prose(sentence, canvas);
        let indented = format!("\n{}", " ".repeat(width(ARROW)));
        for column in table.columns.iter_mut().filter(|column| column.header == sentence) {
            for (cell, advice) in column.cells.iter_mut().zip(&below).filter(|(_, advice)| *advice != "-") {
                cell.extend(["\n", ARROW, &wrap(advice, room).replace('\n', &indented)]);
            }
        }
        table
    }

    /// The same table without some columns of a query.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.columns.retain(|column| !names.iter().any(|name| value::header(name) == column.header));
        self
    }

    /// The same table without columns about samples, and without empty ones, if it is about costs and no row has a sample.
    #[must_use]
    pub fn without_samples(self) -> Self {
        let is_zero = |cell: &String| ["0", "-", ""].contains(&cell.as_str());
        let costs = self.columns.iter().find(|column| column.header == value::header("samples"));
        if costs.is_some_and(|column| column.cells.iter().all(is_zero)) {
            return self
                .without(&["samples", "memory_samples", "memory_share", "main_stall"])
                .without_empty();
        }
        self
    }

    /// The same table without columns that have no value in any row.
    #[must_use]
    pub fn without_empty(mut self) -> Self {
        self.columns.retain(|column| column.cells.iter().any(|cell| !["-", ""].contains(&cell.as_str())));
        self
    }

    /// The columns that differ between rows, and the header and cell of each that does not. All columns of a single row.
    #[must_use]
    pub fn differing(self) -> (Self, Vec<(String, String)>) {
        let is_equal = |column: &TextColumn| {
            column.cells.len() > 1 && column.cells.windows(2).all(|pair| pair[0] == pair[1])
        };
        let (equal, columns): (Vec<TextColumn>, Vec<TextColumn>) =
            self.columns.into_iter().partition(is_equal);
        let equal = equal
            .into_iter()
            .map(|column| (column.header, column.cells.into_iter().next().unwrap_or_default()));
        (Self { columns, can_fold: self.can_fold }, equal.collect())
    }

    /// Width that the canvas leaves for one column.
    fn room(&self, header: &str, canvas: TableCanvas) -> usize {
        let others = self.columns.iter().filter(|column| column.header != header);
        let others: usize = others.map(|column| column.natural() + GAP.len()).sum();
        canvas.width.map_or(usize::MAX, |limit| limit.saturating_sub(others).max(COMFORTABLE))
    }

    /// The table with one row per column: for few rows of many facts.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let cells = |cells: &mut dyn Iterator<Item = &String>| cells.cloned().collect::<Vec<_>>();
        let Some((first, others)) = self.columns.split_first() else { return Self::default() };
        let text = |header: String, cells| TextColumn {
            header,
            is_number: false,
            shorten: ShortenSide::Middle,
            cells,
        };
        let mut columns =
            vec![text(first.header.clone(), cells(&mut others.iter().map(|column| &column.header)))];
        for row in 0..self.rows() {
            let facts = cells(&mut others.iter().map(|column| &column.cells[row]));
            columns.push(text(first.cells[row].clone(), facts));
        }
        Self { columns, can_fold: false }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.cells.len())
    }

    /// Draws the table: as columns, with text folded below the first if that does not fit. If nothing else fits, ranked
    /// tables drop columns, and others become records.
    pub fn draw(&self, out: &mut dyn Write, canvas: TableCanvas) -> io::Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let Some(limit) = canvas.width else {
            return self.draw_columns(out, canvas.paint, &self.fit(usize::MAX, 0));
        };
        let comfortable = self.fit(limit, COMFORTABLE);
        if total(&comfortable) <= limit {
            return self.draw_columns(out, canvas.paint, &comfortable);
        }
        if let Some(fold) = ColumnFold::for_table(self, limit) {
            return fold.draw(self, out, canvas.paint);
        }
        if let Some(narrower) = self.narrower() {
            return narrower.draw(out, canvas);
        }
        let narrow = self.fit(limit, NARROWEST);
        if total(&narrow) > limit && self.columns.len() > 2 && !self.is_ranked() {
            return self.draw_records(out, canvas, limit);
        }
        self.draw_columns(out, canvas.paint, &narrow)
    }

    /// Draws the table in a shape.
    pub fn draw_as(&self, shape: TableShape, out: &mut dyn Write, canvas: TableCanvas) -> io::Result<()> {
        match shape {
            TableShape::Fitting => self.draw(out, canvas),
            TableShape::Columns => self.draw(out, TableCanvas { width: None, ..canvas }),
            TableShape::Records => self.draw_records(out, canvas, canvas.width.unwrap_or(usize::MAX)),
        }
    }

    fn is_ranked(&self) -> bool {
        self.can_fold && self.columns.iter().any(|column| RANKED.contains(&column.header.as_str()))
    }

    /// A ranked table without the next columns that it can drop.
    fn narrower(&self) -> Option<Self> {
        let is_here =
            |names: &&&[&str]| self.columns.iter().any(|column| names.contains(&column.header.as_str()));
        let dropped = DROPPED.iter().find(is_here).filter(|_| self.is_ranked())?;
        let mut table = self.clone();
        table.columns.retain(|column| !dropped.contains(&column.header.as_str()));
        Some(table)
    }

    /// The width of each column: its natural width, or less if the widest can be shortened, down to a minimum.
    fn fit(&self, limit: usize, floor: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(TextColumn::natural).collect();
        while total(&widths) > limit {
            let floor = |column: &TextColumn| {
                let floor = if column.shorten == ShortenSide::End { NARROWEST.min(floor) } else { floor };
                width(&column.header).max(floor)
            };
            // Prose is shortened before names.
            let widest = (0..widths.len())
                .filter(|&at| {
                    self.columns[at].shorten != ShortenSide::Never && widths[at] > floor(&self.columns[at])
                })
                .max_by_key(|&at| (self.columns[at].shorten == ShortenSide::End, widths[at], at));
            match widest {
                Some(at) => widths[at] -= 1,
                None => break,
            }
        }
        widths
    }

    fn draw_columns(&self, out: &mut dyn Write, paint: TextPaint, widths: &[usize]) -> io::Result<()> {
        let headers =
            self.columns.iter().zip(widths).map(|(column, &width)| column.place(&column.header, width));
        writeln!(out, "{}", paint.text(TextRole::Header, headers.collect::<Vec<_>>().join(GAP).trim_end()))?;
        let rule: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
        writeln!(out, "{}", paint.text(TextRole::Dim, &rule.join(GAP)))?;
        for row in 0..self.rows() {
            let lines =
                self.columns.iter().map(|column| column.cells[row].lines().count()).max().unwrap_or(1);
            for line in 0..lines.max(1) {
                let cells = self.columns.iter().zip(widths);
                let cells = cells.map(|(column, &width)| column.place(column.line(row, line), width));
                let text = cells.collect::<Vec<_>>().join(GAP);
                writeln!(out, "{}", paint.text(self.role(row), text.trim_end()))?;
            }
        }
        Ok(())
    }

    fn draw_records(&self, out: &mut dyn Write, canvas: TableCanvas, limit: usize) -> io::Result<()> {
        let names = self.columns.iter().map(|column| width(&column.header)).max().unwrap_or(0);
        for row in 0..self.rows() {
            let title = format!("─ row {} ", row + 1);
            let rule = format!("{title}{}", "─".repeat(limit.min(60).saturating_sub(width(&title))));
            writeln!(out, "{}", canvas.paint.text(TextRole::Dim, &rule))?;
            for column in &self.columns {
                let name = pad(&column.header, names, false);
                let room = limit.saturating_sub(names + GAP.len()).max(NARROWEST);
                let cell = column.cells[row].replace('\n', &format!("\n{}{GAP}", " ".repeat(names)));
                let cell = shorten(&cell, room, column.shorten_for(row));
                writeln!(out, "{}{GAP}{cell}", canvas.paint.text(TextRole::Header, &name))?;
            }
        }
        Ok(())
    }

    /// Rows that aggregate others, and unattributed rows, are dimmed.
    fn role(&self, row: usize) -> TextRole {
        let text =
            self.columns.iter().find(|column| !column.is_number).map(|column| column.cells[row].as_str());
        if text.is_some_and(is_aggregate) { TextRole::Dim } else { TextRole::Plain }
    }
}

/// Recognizes the name of a row that aggregates others or is unattributed.
pub fn is_aggregate(name: &str) -> bool {
    ["(", "other (", "not significant ("].iter().any(|start| name.starts_with(start))
}

impl TextColumn {
    fn new(field: &arrow::datatypes::Field, look: NumberFormat) -> Self {
        let is_number = value::is_number(field.data_type());
        let header =
            if look == NumberFormat::Report { value::header(field.name()) } else { field.name().clone() };
        let shorten = match field.name().as_str() {
            _ if is_number => ShortenSide::Never,
            "detail" | "reason" => ShortenSide::End,
            name if name.ends_with("_at") || name.ends_with("line") || name.ends_with("file") => {
                ShortenSide::Start
            }
            _ => ShortenSide::Middle,
        };
        Self { header, is_number, shorten, cells: Vec::new() }
    }

    fn natural(&self) -> usize {
        let lines = self.cells.iter().flat_map(|cell| cell.lines());
        lines.chain([self.header.as_str()]).map(width).max().unwrap_or(0)
    }

    /// One line of a cell. Empty if the cell has fewer.
    fn line(&self, row: usize, line: usize) -> &str {
        self.cells[row].lines().nth(line).unwrap_or_default()
    }

    /// Cells of several lines (plans, stacks) are laid out already and stay complete.
    fn shorten_for(&self, row: usize) -> ShortenSide {
        if self.cells[row].contains('\n') { ShortenSide::Never } else { self.shorten }
    }

    fn place(&self, text: &str, width: usize) -> String {
        pad(&shorten(text, width, self.shorten), width, self.is_number)
    }
}

/// Total width of these columns.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

fn pad(text: &str, to: usize, right: bool) -> String {
    let space = " ".repeat(to.saturating_sub(width(text)));
    if right { format!("{space}{text}") } else { format!("{text}{space}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let rows = [("weight", "1,234", "model.py:10"), ("(no tensor)", "5", "-")];
        let rows = rows.map(|(name, samples, line)| [name, samples, line].map(str::to_owned));
        let mut table = TextTable::of_text(["tensor", "samples", "line"], rows.to_vec()).numbers(&[1]);
        table.columns[2].shorten = ShortenSide::Start;
        table
    }

    #[track_caller]
    pub(super) fn check(table: &TextTable, width: Option<usize>, expected: &str) {
        let mut out = Vec::new();
        table.draw(&mut out, TableCanvas { width, paint: TextPaint::PLAIN }).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn numbers_stand_at_the_right() {
        let expected = "\
tensor       samples  line
───────────  ───────  ───────────
weight         1,234  model.py:10
(no tensor)        5  -
";
        check(&table(), None, expected);
    }

    #[test]
    fn advice_stands_below_its_sentence() {
        let rows = vec![
            ["unit", "It is slow and it is long.", "Make it fast and make it short."].map(str::to_owned),
            ["other (1)", "It is slow.", "-"].map(str::to_owned),
        ];
        let canvas = TableCanvas { width: Some(51), paint: TextPaint::PLAIN };
        let table =
            TextTable::of_text(["finding", "sentence", "advice"], rows).advice("sentence", "advice", canvas);
        let expected = "\
finding    sentence
─────────  ─────────────────────────────────
unit       It is slow and it is long.
           → Make it fast and make it short.
other (1)  It is slow.
";
        check(&table, canvas.width, expected);
        assert_eq!(table.without(&["finding"]).columns.len(), 1);
    }

    #[test]
    fn equal_cells_are_one() {
        let rows = [["a", "1", "x"], ["b", "1", "x"]].map(|row| row.map(str::to_owned));
        let (table, equal) = TextTable::of_text(["name", "device", "limit"], rows.to_vec()).differing();
        check(&table, None, "name\n────\na\nb\n");
        assert_eq!(
            equal,
            [("device", "1"), ("limit", "x")].map(|(name, cell)| (name.to_owned(), cell.to_owned()))
        );
        let one = TextTable::of_text(["name"], vec![["a".to_owned()]]);
        assert_eq!(one.differing().1, []);
    }

    #[test]
    fn columns_that_cannot_fit_become_records() {
        let expected = "\
─ row 1 ────────────
tensor   weight
samples  1,234
line     model.py:10
─ row 2 ────────────
tensor   (no tensor)
samples  5
line     -
";
        check(&table(), Some(20), expected);
    }

    #[test]
    fn ranked_tables_drop_columns() {
        let row = ["29.1 %", "1,693", "1,613", "1,776", "1.66 µs", "weight"].map(str::to_owned);
        let headers = ["share", "samples", "low", "high", "time", "tensor"];
        let mut table = TextTable::of_text(headers, vec![row]).numbers(&[0, 1, 2, 3, 4]);
        table.can_fold = true;
        let rule = "──────  ───────  ──────";
        let expected = format!(" share     time  tensor\n{rule}\n29.1 %  1.66 µs  weight\n");
        check(&table, Some(30), &expected);
    }

    #[test]
    fn the_widest_column_gives_way_first() {
        let long = ["a_very_long_kernel_name_with_a_telling_end", "x"].map(str::to_owned);
        let mut table = TextTable::of_text(["kernel", "op"], vec![long]);
        table.columns[0].shorten = ShortenSide::Middle;
        let expected = "\
kernel                op
────────────────────  ──
a_very_lon…lling_end  x
";
        check(&table, Some(24), expected);
    }
}
