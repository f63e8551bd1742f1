//! Tables of a query's rows: complete without a script, which adds sorting and filtering.

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, UInt64Type};
use arrow::error::ArrowError;

use serde_json::Value;

use super::links::{PageLinks, finding_anchor, line_anchor, reason_anchor, tensor_anchor};
use super::numbers;
use crate::glossary::meaning;
use stallmap_console::exit::Outcome;
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::table::is_aggregate;
use stallmap_console::output::value::{self, NumberFormat};

/// Layout of a table's columns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TableLayout {
    /// Its caption.
    pub(super) caption: &'static str,
    /// The column that rows are called by.
    pub(super) name: &'static str,
    /// Columns shown below the name, with their labels.
    pub(super) below: &'static [(&'static str, &'static str)],
    /// The column with bars.
    pub(super) bar: &'static str,
    /// Hidden columns.
    pub(super) hidden: &'static [&'static str],
    /// True if the table has enough rows for search and sorting.
    pub(super) is_long: bool,
    /// Its rows.
    pub(super) rows: AnchoredRows,
}

/// Kind of a table's rows: their anchors, and their links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AnchoredRows {
    /// No anchors. Kernels are links.
    #[default]
    Plain,
    /// Tensors of the forest.
    Forest,
    /// Tensors by cost.
    Tensors,
    /// Python lines.
    Lines,
    /// Findings, with links to line, kernel, code and tensor.
    Findings,
    /// Sentences with the same links.
    Sentences,
}

/// A column of cells.
pub(super) struct CellColumn {
    pub(super) name: String,
    pub(super) is_number: bool,
    pub(super) texts: Vec<String>,
    numbers: Vec<Option<f64>>,
}

/// The column of kernels, which names link to. It is not shown.
const FUNCTION: &str = "function_id";
/// The column of tensors, whose rows are anchors. It is not shown.
const TENSOR: &str = "tensor_id";
/// The columns of an instruction, which sentences link to. They are not shown.
const CODE: &str = "code_function_id";
const PC: &str = "pc";
/// The column of a line, which sentences link to.
const LINE: &str = "line";

/// Columns for programs only.
const DETAILS: [&str; 5] = [FUNCTION, TENSOR, CODE, "full_name", "label_source"];

/// The column of the most frequent stall reason, explained in its cells.
const REASON: &str = "main_stall";

/// A table of the rows. Kernels are links if the page has details of them.
pub(super) fn table(rows: &[RecordBatch], layout: &TableLayout, links: &PageLinks) -> Outcome<HtmlPage> {
    with_picture(rows, layout, links, |picture| {
        let mut html = HtmlPage::default();
        html.markup("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"")
            .text(layout.caption);
        html.markup("\"><table").markup(if layout.is_long { " class=\"long\"" } else { "" });
        html.markup("><caption>").text(layout.caption).markup("</caption>\n<thead><tr>");
        for column in picture.ordered() {
            html.markup("<th scope=\"col\"").markup(if column.is_number { " class=\"n\">" } else { ">" });
            html.text(&value::header(&column.name)).markup("</th>");
        }
        html.markup("</tr></thead>\n<tbody>\n");
        for row in 0..picture.columns.first().map_or(0, |column| column.texts.len()) {
            picture.row(&mut html, row);
        }
        html.markup("</tbody></table></div>\n");
        html
    })
}

/// The same table as data of the page's script.
pub(super) fn data(rows: &[RecordBatch], layout: &TableLayout, links: &PageLinks) -> Outcome<Value> {
    with_picture(rows, layout, links, numbers::columns)
}

fn with_picture<T>(
    rows: &[RecordBatch],
    layout: &TableLayout,
    links: &PageLinks,
    draw: impl FnOnce(&PageTable<'_>) -> T,
) -> Outcome<T> {
    let columns = columns(rows).map_err(arrow_failure)?;
    let identities = [FUNCTION, TENSOR, CODE, PC].map(|name| identities(rows, name).map_err(arrow_failure));
    let [functions, tensors, codes, pcs] = identities;
    Ok(draw(&PageTable {
        columns: &columns,
        functions: &functions?,
        tensors: &tensors?,
        codes: &codes?,
        pcs: &pcs?,
        layout,
        links,
    }))
}

/// A table's rows with their identities, layout and links.
pub(super) struct PageTable<'a> {
    columns: &'a [CellColumn],
    pub(super) functions: &'a [Option<u64>],
    tensors: &'a [Option<u64>],
    codes: &'a [Option<u64>],
    pcs: &'a [Option<u64>],
    pub(super) layout: &'a TableLayout,
    pub(super) links: &'a PageLinks,
}

impl PageTable<'_> {
    /// The columns side by side: the one with bars, the names, the rest.
    pub(super) fn ordered(&self) -> impl Iterator<Item = &CellColumn> {
        let is_below = |name: &str| self.layout.below.iter().any(|(below, _)| *below == name);
        let first = [self.layout.bar, self.layout.name];
        let named = move |wanted: &'static str| self.columns.iter().find(move |column| column.name == wanted);
        let is_hidden = move |name: &str| {
            DETAILS.contains(&name)
                || self.layout.hidden.contains(&name)
                || self.is_linked() && [LINE, PC].contains(&name)
        };
        let others = self.columns.iter().filter(move |column| {
            let name = column.name.as_str();
            !is_hidden(name) && !first.contains(&name) && !is_below(name)
        });
        first.into_iter().filter_map(named).chain(others)
    }

    fn column(&self, name: &str) -> Option<&CellColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// True if rows link to everything that they name.
    fn is_linked(&self) -> bool {
        matches!(self.layout.rows, AnchoredRows::Findings | AnchoredRows::Sentences)
    }

    /// True if a row aggregates others: it stays below them.
    fn is_rest(&self, row: usize) -> bool {
        let name = self.column(self.layout.name).and_then(|column| column.texts.get(row));
        self.layout.is_long && name.is_some_and(|name| is_aggregate(name))
    }

    /// True if a row marks itself as incomplete.
    fn is_flaw(&self, row: usize) -> bool {
        let name = self.column(self.layout.name).and_then(|column| column.texts.get(row));
        !self.layout.is_long && name.is_some_and(|name| name.starts_with("! "))
    }

    fn row(&self, html: &mut HtmlPage, row: usize) {
        html.markup("<tr");
        if let Some(anchor) = self.anchor(row) {
            html.markup(" id=\"").text(&anchor).markup("\"");
        }
        html.markup(match (self.is_rest(row), self.is_flaw(row)) {
            (true, _) => " class=\"rest\">",
            (_, true) => " class=\"flaw\">",
            _ => ">",
        });
        for column in self.ordered() {
            if column.name == self.layout.name {
                self.name(html, column, row);
                continue;
            }
            let text = column.texts.get(row).map_or("", String::as_str);
            let Some(&number) = column.numbers.get(row) else {
                html.markup("<td>");
                self.word(html, column, text);
                continue;
            };
            sortable(html, text, number);
            if column.name == self.layout.bar {
                self.bar(html, column, row);
            }
            html.text(text);
        }
        // Ends of cells and rows are optional, and each page has thousands.
        html.markup("\n");
    }

    /// A row's anchor.
    fn anchor(&self, row: usize) -> Option<String> {
        let tensor = self.tensors.get(row).copied().flatten();
        match self.layout.rows {
            AnchoredRows::Forest => tensor.map(|tensor| format!("tensor-{tensor}")),
            AnchoredRows::Tensors => tensor.map(tensor_anchor),
            AnchoredRows::Lines => Some(line_anchor(row)),
            AnchoredRows::Findings => Some(finding_anchor(row)),
            AnchoredRows::Plain | AnchoredRows::Sentences => None,
        }
    }

    /// A text. A stall reason leads to its meaning.
    fn word(&self, html: &mut HtmlPage, column: &CellColumn, text: &str) {
        let anchor = (column.name == REASON).then(|| self.links.found(reason_anchor(text))).flatten();
        match anchor {
            Some(anchor) => {
                let meaning = meaning(text).unwrap_or_default();
                html.markup("<a href=\"#").text(&anchor).markup("\" title=\"").text(meaning).markup("\">");
                html.text(text).markup("</a>");
            }
            None => {
                html.text(text);
            }
        }
    }

    /// A bar of the row's share: the full width is all samples. Aggregated rows have none, because they are of another
    /// kind.
    fn bar(&self, html: &mut HtmlPage, column: &CellColumn, row: usize) {
        let share = column.numbers.get(row).copied().flatten().unwrap_or(0.0);
        if share > 0.0 && !self.is_rest(row) {
            bar(html, share);
        }
    }

    /// The row's name, with the cells below it.
    fn name(&self, html: &mut HtmlPage, column: &CellColumn, row: usize) {
        let text = column.texts.get(row).map_or("", String::as_str);
        let function = self.functions.get(row).copied().flatten().filter(|_| !self.is_linked());
        html.markup("<th scope=row>");
        let anchor = function.and_then(|function| self.links.kernel(function));
        match &anchor {
            Some(anchor) => html.markup("<a class=text href=\"#").text(anchor).markup("\""),
            None => html.markup("<span class=text"),
        };
        // The style cuts long names, which the script makes tooltips.
        let full = self.column("full_name").and_then(|column| column.texts.get(row));
        let full = full.map(String::as_str).filter(|full| *full != "-");
        if let Some(title) = full.filter(|full| *full != text) {
            html.markup(" title=\"").text(title).markup("\"");
        }
        html.markup(">").text(text).markup(if anchor.is_some() { "</a>" } else { "</span>" });
        for (name, words) in self.layout.below {
            let summary = self.column(name).and_then(|column| column.texts.get(row));
            if let Some(summary) = summary.filter(|summary| !summary.is_empty() && *summary != "-") {
                html.markup("<small><i>").text(words).markup("</i> ");
                match self.links.line(summary).filter(|_| self.layout.rows != AnchoredRows::Lines) {
                    Some(anchor) => link(html, anchor, summary),
                    None => html.text(summary),
                };
                html.markup("</small>");
            }
        }
        if self.is_linked() {
            self.targets(html, row);
        }
    }

    /// Links to what a sentence is about: its line, kernel, instruction and tensor.
    fn targets(&self, html: &mut HtmlPage, row: usize) {
        let at = |values: &[Option<u64>]| values.get(row).copied().flatten();
        let line = self.column(LINE).and_then(|column| column.texts.get(row));
        let tensor = at(self.tensors);
        let place =
            at(self.codes).zip(at(self.pcs)).or_else(|| tensor.and_then(|tensor| self.links.wait(tensor)));
        let targets = [
            line.and_then(|line| self.links.line(line)).map(|anchor| (anchor.to_owned(), "line".to_owned())),
            at(self.functions)
                .and_then(|id| self.links.kernel(id))
                .map(|anchor| (anchor, "kernel".to_owned())),
            place.and_then(|place| {
                Some((self.links.instruction(place)?.to_owned(), format!("code +{:#x}", place.1)))
            }),
            tensor
                .and_then(|tensor| self.links.found(tensor_anchor(tensor)))
                .map(|anchor| (anchor, "tensor".to_owned())),
        ];
        html.markup("<small class=targets>");
        for (anchor, words) in targets.iter().flatten() {
            link(html, anchor, words).markup(" ");
        }
        html.markup("</small>");
    }
}

/// A link within the page.
pub(super) fn link<'a>(html: &'a mut HtmlPage, anchor: &str, words: &str) -> &'a mut HtmlPage {
    html.markup("<a href=\"#").text(anchor).markup("\">").text(words).markup("</a>")
}

/// The begin of a cell of a number, with the number for sorting where the text is another.
fn sortable(html: &mut HtmlPage, text: &str, number: Option<f64>) {
    let number = number.map(brief).filter(|number| *number != text.replace(',', ""));
    html.markup("<td data-v");
    if let Some(number) = number {
        html.markup("=").text(&number);
    }
    html.markup(">");
}

/// A bar of a part of all samples.
fn bar(html: &mut HtmlPage, share: f64) {
    html.markup("<svg class=bar aria-hidden=true><rect width=").percent(share.min(1.0)).markup(" /></svg>");
}

/// A number for sorting: six digits, two more than are shown.
fn brief(number: f64) -> String {
    format!("{number:.5e}").parse::<f64>().map_or_else(|_| String::new(), |number| number.to_string())
}

fn columns(rows: &[RecordBatch]) -> Result<Vec<CellColumn>, ArrowError> {
    let mut columns: Vec<CellColumn> = Vec::new();
    for batch in rows {
        let schema = batch.schema();
        if columns.is_empty() {
            let column = |field: &arrow::datatypes::FieldRef| CellColumn {
                name: field.name().clone(),
                is_number: value::is_number(field.data_type()),
                texts: Vec::new(),
                numbers: Vec::new(),
            };
            columns = schema.fields().iter().map(column).collect();
        }
        let texts = value::columns(batch, NumberFormat::Report)?;
        for ((column, array), texts) in columns.iter_mut().zip(batch.columns()).zip(texts) {
            column.texts.extend(texts);
            if column.is_number {
                let array = cast(array, &DataType::Float64)?;
                column.numbers.extend(array.as_primitive::<Float64Type>().iter());
            }
        }
    }
    Ok(columns)
}

/// A column of identities, exactly.
fn identities(rows: &[RecordBatch], name: &str) -> Result<Vec<Option<u64>>, ArrowError> {
    let mut numbers = Vec::new();
    for batch in rows {
        if let Some(array) = batch.column_by_name(name) {
            let array = cast(array, &DataType::UInt64)?;
            numbers.extend(array.as_primitive::<UInt64Type>().iter());
        }
    }
    Ok(numbers)
}
