//! The panes of a kernel's page: source lines, and instructions with arrows.

use std::collections::BTreeMap;

use super::super::listing::{ListingInstruction, ListingLine};
use super::super::words;
use super::CodePage;
use super::arrows::FunctionArrows;
use super::excerpt::ExcerptRow;
use stallmap_console::output::html::HtmlPage;

/// Source lines around those with instructions.
const CONTEXT: usize = 3;
/// Headers of the first columns of both panes.
const COUNTS: [&str; 2] =
    [" <span class=\"dim\">samples, charged</span>", " <span class=\"dim\">samples, charged, sectors</span>"];

impl CodePage<'_> {
    /// Both panes.
    pub(super) fn code(&self, html: &mut HtmlPage) {
        let has_lines = !self.listing.lines.is_empty();
        self.heading(html, "Code");
        html.markup("<p class=\"dim\">").markup(super::LEGEND).markup("</p>\n");
        html.markup("<div class=\"split");
        html.markup(if has_lines { "\">\n<div>\n" } else { " alone\">\n" });
        if has_lines {
            let mut by_file: BTreeMap<&str, Vec<&ListingLine>> = BTreeMap::new();
            for line in &self.listing.lines {
                by_file.entry(&line.file).or_default().push(line);
            }
            for (file, lines) in by_file {
                self.source(html, file, lines);
            }
            html.markup("</div>\n");
        }
        html.markup("<div>\n");
        for rows in self.listing.instructions.chunk_by(|a, b| a.place().0 == b.place().0) {
            self.function(html, &rows.iter().collect::<Vec<_>>());
        }
        html.markup("</div>\n</div>\n");
    }

    /// A file's lines with instructions, with their surroundings if the text is available.
    fn source(&self, html: &mut HtmlPage, file: &str, mut lines: Vec<&ListingLine>) {
        let all = lines.len();
        let (mut shown, mut samples) = (0.0, 0.0);
        lines.retain(|line| {
            let is_shown = self.excerpt.has_line(&line.file, line.number);
            samples += line.samples;
            shown += if is_shown { line.samples } else { 0.0 };
            is_shown
        });
        if lines.is_empty() {
            return;
        }
        lines.sort_by_key(|line| line.number);
        let hottest = lines.iter().max_by(|a, b| a.samples.total_cmp(&b.samples));
        let hottest = hottest.map(|line| (line.number.to_string(), self.line_id(&line.file, line.number)));
        self.pane(html, (file, COUNTS[0]), hottest);
        html.markup("<div class=\"rows text\"><div class=\"lines\">\n");
        let mut next = 0_u32;
        for line in &lines {
            let context = u32::try_from(CONTEXT).unwrap_or(0);
            let first = line.number.saturating_sub(context).max(next).max(1);
            if next > 0 && first > next {
                html.markup("<div><span class=\"gap\">⋯</span></div>\n");
            }
            for above in first..line.number {
                self.plain_line(html, file, above);
            }
            self.warm_line(html, line);
            next = line.number + 1;
        }
        for below in next..next.saturating_add(u32::try_from(CONTEXT).unwrap_or(0)) {
            self.plain_line(html, file, below);
        }
        if all > lines.len() {
            self.gap(
                html,
                &words::counted(all.abs_diff(lines.len()) as u64, "other line", "other lines"),
                samples - shown,
            );
        }
        html.markup("</div></div></div>\n");
    }

    fn plain_line(&self, html: &mut HtmlPage, file: &str, line: u32) {
        let Some(text) = self.files.line(file, line) else { return };
        html.markup("<div><i></i><i></i><u>").text(&line.to_string());
        html.markup("</u><code class=\"dim\">").text(text).markup("</code></div>\n");
    }

    fn warm_line(&self, html: &mut HtmlPage, line: &ListingLine) {
        let heat = self.listing.share(line.samples);
        html.markup("<div id=\"").text(&self.line_id(&line.file, line.number)).markup("\" class=\"");
        html.heat(heat).markup("\"><i>").text(&count(line.samples));
        html.markup("</i><i>").text(&count(line.charged_samples)).markup("</i><u>");
        let is_its = |row: &&ListingInstruction| row.source() == Some((&line.file, line.number));
        match self.listing.instructions.iter().find(is_its) {
            Some(first) if self.excerpt.has(first.place()) => {
                html.markup("<a href=\"#").text(&self.id(first.place())).markup("\">");
                html.text(&line.number.to_string()).markup("</a>")
            }
            _ => html.text(&line.number.to_string()),
        };
        let text = self.files.line(&line.file, line.number).unwrap_or_default();
        html.markup("</u><code>").text(text).markup("</code></div>\n");
    }

    /// A function's instructions with arrows.
    fn function(&self, html: &mut HtmlPage, rows: &[&ListingInstruction]) {
        let Some(first) = rows.first() else { return };
        let name = first.function.as_deref().unwrap_or("a function without a name");
        let hottest = rows.iter().filter(|row| self.excerpt.has(row.place()));
        let hottest = hottest.max_by(|a, b| a.samples.total_cmp(&b.samples));
        self.pane(html, (name, COUNTS[1]), hottest.map(|row| (words::pc(row.pc), self.id(row.place()))));
        let shown = self.excerpt.rows(rows);
        let placed: Vec<(usize, &ListingInstruction)> = shown
            .iter()
            .enumerate()
            .filter_map(|(at, shown)| if let ExcerptRow::Row(row) = shown { Some((at, *row)) } else { None })
            .collect();
        html.markup("<div class=\"rows\">\n");
        FunctionArrows::for_listing(self.listing, &placed).draw(html, shown.len());
        html.markup("<div class=\"lines\">\n");
        for row in &shown {
            match row {
                ExcerptRow::Row(row) => self.row(html, row),
                ExcerptRow::Gap(count, samples) => {
                    let count = words::counted(*count as u64, "other instruction", "other instructions");
                    self.gap(html, &count, *samples);
                }
            }
        }
        html.markup("</div></div></div>\n");
    }

    /// The beginning of a pane, below its name, with a link to its hottest row: the row's words and its anchor.
    fn pane(
        &self,
        html: &mut HtmlPage,
        (name, counts): (&str, &'static str),
        hottest: Option<(String, String)>,
    ) {
        let [_, [begin, end]] = self.headings;
        html.markup("<div class=\"pane\" tabindex=\"0\" role=\"region\" aria-label=\"")
            .text(name)
            .markup("\">");
        html.markup(begin).text(name).markup(counts);
        if let Some((words, anchor)) = hottest {
            html.markup(" <a class=\"hottest\" href=\"#").text(&anchor).markup("\">hottest: ");
            html.text(&words).markup("</a>");
        }
        html.markup(end);
    }

    /// Hidden rows, counted.
    fn gap(&self, html: &mut HtmlPage, count: &str, samples: f64) {
        html.markup("<div><span class=\"gap\">⋯ ");
        html.text(&format!("({count}, {})", words::samples(self.listing, samples))).markup("</span></div>\n");
    }

    fn row(&self, html: &mut HtmlPage, row: &ListingInstruction) {
        html.markup("<div id=\"").text(&self.id(row.place())).markup("\" class=\"");
        html.heat(self.listing.share(row.samples)).markup("\"><i>").text(&count(row.samples));
        html.markup("</i><i>").text(&count(row.charged_samples));
        html.markup("</i><i>").text(&words::sectors(row).unwrap_or_default());
        html.markup("</i><u>").text(&words::pc(row.pc));
        html.markup("</u><code>").text(words::text(row)).markup("</code>");
        match (row.source(), words::source(row)) {
            (Some((file, line)), Some(summary)) if self.excerpt.has_line(file, line) => {
                html.markup("<a href=\"#").text(&self.line_id(file, line)).markup("\">");
                html.text(&summary).markup("</a>");
            }
            (_, Some(summary)) => {
                html.markup("<code class=\"dim\">").text(&summary).markup("</code>");
            }
            _ => {}
        }
        let mut notes = vec![words::reasons(self.listing, &[row])];
        notes.extend(words::touches(self.listing, row));
        notes.extend(words::call_path(row));
        notes.retain(|note| !note.is_empty());
        if !notes.is_empty() {
            html.markup("<small>").text(&notes.join("; ")).markup("</small>");
        }
        html.markup("</div>\n");
    }
}

fn count(samples: f64) -> String {
    match samples {
        samples if samples < 0.05 => String::new(),
        samples => words::amount(samples),
    }
}
