//! Tables of a query's rows: complete without a script, which adds sorting and filtering.

use std::collections::BTreeSet;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, UInt64Type};
use arrow::error::ArrowError;

use stallmap_console::exit::Outcome;
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::html::Html;
use stallmap_console::output::table::is_aggregate;
use stallmap_console::output::value::{self, Look};

/// Layout of a table's columns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
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
}

/// A column of cells.
struct Column {
    name: String,
    is_number: bool,
    texts: Vec<String>,
    numbers: Vec<Option<f64>>,
}

/// The column of kernels, which names link to. It is not shown.
const FUNCTION: &str = "function_id";
/// The column of tensors, whose rows are anchors. It is not shown.
const TENSOR: &str = "tensor_id";

/// Columns for programs only.
const DETAILS: [&str; 2] = ["full_name", "label_source"];

/// Minimum bytes of a name that may not fit.
const LONG_NAME: usize = 80;

/// Anchors that links may lead to.
pub(super) type Anchors = BTreeSet<String>;

/// The anchor of a kernel.
pub(super) fn kernel_anchor(function: u64) -> String {
    format!("kernel-{function:016x}")
}

/// A table of the rows. Kernels are links if the page has details of them.
pub(super) fn table(rows: &[RecordBatch], layout: &Layout, anchors: &Anchors) -> Outcome<Html> {
    let columns = columns(rows).map_err(arrow_failure)?;
    let functions = numbers(rows, FUNCTION).map_err(arrow_failure)?;
    let tensors = numbers(rows, TENSOR).map_err(arrow_failure)?;
    let picture = Picture { columns: &columns, functions: &functions, tensors: &tensors, layout, anchors };
    let mut html = Html::default();
    html.markup("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"").text(layout.caption);
    html.markup("\"><table").markup(if layout.is_long { " class=\"long\"" } else { "" });
    html.markup("><caption>").text(layout.caption).markup("</caption>\n<thead><tr>");
    for column in picture.ordered() {
        html.markup("<th scope=\"col\"").markup(if column.is_number { " class=\"n\">" } else { ">" });
        html.text(&value::header(&column.name)).markup("</th>");
    }
    html.markup("</tr></thead>\n<tbody>\n");
    for row in 0..columns.first().map_or(0, |column| column.texts.len()) {
        picture.row(&mut html, row);
    }
    html.markup("</tbody></table></div>\n");
    Ok(html)
}

struct Picture<'a> {
    columns: &'a [Column],
    functions: &'a [Option<u64>],
    tensors: &'a [Option<u64>],
    layout: &'a Layout,
    anchors: &'a Anchors,
}

impl Picture<'_> {
    /// The columns side by side: the one with bars, the names, the rest.
    fn ordered(&self) -> impl Iterator<Item = &Column> {
        let is_below = |name: &str| self.layout.below.iter().any(|(below, _)| *below == name);
        let first = [self.layout.bar, self.layout.name];
        let named = move |wanted: &'static str| self.columns.iter().find(move |column| column.name == wanted);
        let others = self.columns.iter().filter(move |column| {
            ![FUNCTION, TENSOR].contains(&column.name.as_str())
                && !DETAILS.contains(&column.name.as_str())
                && !self.layout.hidden.contains(&column.name.as_str())
                && !first.contains(&column.name.as_str())
                && !is_below(&column.name)
        });
        first.into_iter().filter_map(named).chain(others)
    }

    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
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

    fn row(&self, html: &mut Html, row: usize) {
        html.markup("<tr");
        if let Some(tensor) = self.tensors.get(row).copied().flatten() {
            html.markup(" id=\"tensor-").text(&tensor.to_string()).markup("\"");
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
                html.markup("<td>").text(text).markup("</td>");
                continue;
            };
            html.markup("<td class=\"n\" data-v=\"");
            if let Some(number) = number {
                html.text(&number.to_string());
            }
            html.markup("\">");
            if column.name == self.layout.bar {
                self.bar(html, column, row);
            }
            html.text(text).markup("</td>");
        }
        html.markup("</tr>\n");
    }

    /// A bar of the row's share: the full width is all samples. Aggregated rows have none, because they are of another
    /// kind.
    fn bar(&self, html: &mut Html, column: &Column, row: usize) {
        let share = column.numbers.get(row).copied().flatten().unwrap_or(0.0);
        if share > 0.0 && !self.is_rest(row) {
            html.markup("<svg class=\"bar\" aria-hidden=\"true\"><rect width=\"").percent(share.min(1.0));
            html.markup("\" height=\"12\"/></svg>");
        }
    }

    /// The row's name, with the cells below it.
    fn name(&self, html: &mut Html, column: &Column, row: usize) {
        let text = column.texts.get(row).map_or("", String::as_str);
        let anchor = self.functions.get(row).copied().flatten().map(kernel_anchor);
        html.markup("<th scope=\"row\" class=\"name\">");
        let anchor = anchor.filter(|anchor| self.anchors.contains(anchor));
        match &anchor {
            Some(anchor) => html.markup("<a class=\"text\" href=\"#").text(anchor).markup("\""),
            None => html.markup("<span class=\"text\""),
        };
        // The style cuts long names. The complete name is there for search, copy and tooltip.
        let full = self.column("full_name").and_then(|column| column.texts.get(row));
        let full = full.map(String::as_str).filter(|full| *full != "-");
        if let Some(title) = full.or_else(|| (text.len() > LONG_NAME).then_some(text)) {
            html.markup(" title=\"").text(title).markup("\"");
        }
        html.markup(">").text(text).markup(if anchor.is_some() { "</a>" } else { "</span>" });
        for (name, words) in self.layout.below {
            let summary = self.column(name).and_then(|column| column.texts.get(row));
            if let Some(summary) = summary.filter(|summary| !summary.is_empty() && *summary != "-") {
                html.markup("<span class=\"below\"><span>").text(words).markup("</span> ");
                html.text(summary).markup("</span>");
            }
        }
        html.markup("</th>");
    }
}

fn columns(rows: &[RecordBatch]) -> Result<Vec<Column>, ArrowError> {
    let mut columns: Vec<Column> = Vec::new();
    for batch in rows {
        let schema = batch.schema();
        if columns.is_empty() {
            let column = |field: &arrow::datatypes::FieldRef| Column {
                name: field.name().clone(),
                is_number: value::is_number(field.data_type()),
                texts: Vec::new(),
                numbers: Vec::new(),
            };
            columns = schema.fields().iter().map(column).collect();
        }
        let texts = value::columns(batch, Look::Report)?;
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
fn numbers(rows: &[RecordBatch], name: &str) -> Result<Vec<Option<u64>>, ArrowError> {
    let mut numbers = Vec::new();
    for batch in rows {
        if let Some(array) = batch.column_by_name(name) {
            let array = cast(array, &DataType::UInt64)?;
            numbers.extend(array.as_primitive::<UInt64Type>().iter());
        }
    }
    Ok(numbers)
}
