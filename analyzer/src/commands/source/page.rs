//! A kernel's code as one page that opens offline: no scripts, nothing loaded, light and dark.

mod arrows;
mod html;

use std::collections::BTreeMap;

use self::arrows::Arrows;
use self::html::Html;
use super::chain::{Link, Node, chain};
use super::file::Files;
use super::group::Group;
use super::listing::{Instruction, Line, Listing, Place};
use super::words;
use crate::output::number::percent;

/// Lines of source around those that have instructions.
const CONTEXT: usize = 3;
/// What the first columns of both panes are.
const COUNTS: &str = " <span class=\"dim\">samples, charged</span>";
/// Reasons in the bar.
const MOST_REASONS: usize = 8;

/// The page.
pub(super) fn page(
    listing: &Listing,
    files: &Files,
    groups: &[Group<'_>],
    top: usize,
    facts: &str,
) -> String {
    let page = Page { listing, files };
    let mut html = Html::default();
    html.markup("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // Should text ever pass for markup, it still could not run or load anything.
    html.markup("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
    html.markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    html.text(&listing.kernel.name).markup(" - stallmap</title>\n<style>\n");
    html.markup(include_str!("page/style.css")).markup("</style>\n</head>\n<body>\n");
    page.heading(&mut html, facts);
    page.hottest(&mut html, groups, top);
    page.waits(&mut html, groups, top);
    page.code(&mut html);
    html.markup("<footer class=\"dim\">samples: warps that stood there. charged: warps, there or elsewhere, that waited for what it loads or stores. Arrows lead from a producer to those that waited for it.</footer>\n</body>\n</html>\n");
    html.finish()
}

struct Page<'a> {
    listing: &'a Listing,
    files: &'a Files,
}

impl Page<'_> {
    fn heading(&self, html: &mut Html, facts: &str) {
        let kernel = &self.listing.kernel;
        html.markup("<header>\n<h1 class=\"code\">").text(&kernel.name).markup("</h1>\n<div class=\"dim\">");
        html.text(facts).markup("</div>\n");
        if let Some(reason) = &kernel.not_read_because {
            html.markup("<p class=\"warning\">Its code could not be read: ").text(reason).markup("</p>\n");
        }
        self.reasons(html);
        html.markup("</header>\n");
    }

    /// The kernel's samples by reason, as a bar and in words.
    fn reasons(&self, html: &mut Html) {
        let mut totals: BTreeMap<&str, f64> = BTreeMap::new();
        for instruction in &self.listing.instructions {
            for reason in self.listing.reasons(instruction.place()) {
                *totals.entry(&reason.name).or_default() += reason.samples;
            }
        }
        let mut totals: Vec<(&str, f64)> = totals.into_iter().collect();
        totals.sort_by(|a, b| b.1.total_cmp(&a.1));
        totals.truncate(MOST_REASONS);
        html.markup("<div class=\"reasons\" aria-hidden=\"true\">");
        for (rank, &(_, samples)) in totals.iter().enumerate() {
            let heat = 1.0 - rank as f64 / MOST_REASONS as f64;
            html.markup("<span style=\"--heat:").number(heat).markup(";width:");
            html.number(self.listing.share(samples) * 100.0).markup("%\"></span>");
        }
        html.markup("</div>\n<div class=\"code dim\">");
        let said = totals
            .iter()
            .map(|&(reason, samples)| format!("{reason} {}", percent(self.listing.share(samples))));
        html.text(&said.collect::<Vec<_>>().join(", ")).markup("</div>\n");
    }

    fn hottest(&self, html: &mut Html, groups: &[Group<'_>], top: usize) {
        html.markup("<h2>Hottest places</h2>\n<div class=\"scroll\"><table>\n<tr><th></th><th class=\"number\">samples</th><th class=\"number\">share</th><th class=\"number\">charged</th><th>where</th><th>code</th></tr>\n");
        for group in groups.iter().take(top) {
            let share = self.listing.share(group.samples);
            html.markup("<tr><td class=\"bar\"><span style=\"width:").number(share * 100.0);
            html.markup("%\"></span></td><td class=\"number\">").text(&words::amount(group.samples));
            html.markup("</td><td class=\"number\">").text(&percent(share));
            html.markup("</td><td class=\"number\">").text(&words::amount(group.charged)).markup("</td><td>");
            self.place_of(html, group);
            html.markup("</td><td>");
            match group.source.and_then(|(file, line)| self.files.line(file, line)) {
                Some(text) => html.text(text.trim()),
                None => html.text(group.instructions.first().map_or("", |first| words::text(first))),
            };
            html.markup("</td></tr>\n");
        }
        html.markup("</table></div>\n");
    }

    /// Where a group is, as a link.
    fn place_of(&self, html: &mut Html, group: &Group<'_>) {
        match (group.source, group.instructions.first()) {
            (Some((file, line)), _) => {
                html.markup("<a href=\"#").text(&self.line_id(file, line)).markup("\">");
                html.text(&format!("{}:{line}", words::file_name(file))).markup("</a>");
            }
            (None, Some(instruction)) => link(html, instruction.place()),
            (None, None) => {}
        }
    }

    /// What the hottest places wait for: a tree for each of their instructions.
    fn waits(&self, html: &mut Html, groups: &[Group<'_>], top: usize) {
        html.markup("<h2>What they wait for</h2>\n");
        for instruction in groups.iter().take(top).flat_map(|group| &group.instructions) {
            let nodes = chain(self.listing, instruction.place());
            if nodes.is_empty() {
                continue;
            }
            html.markup("<ul class=\"chain\"><li>");
            link(html, instruction.place());
            html.markup(" ").text(words::text(instruction)).markup(" <span class=\"dim\">");
            html.text(&words::reasons(self.listing, instruction)).markup("</span>");
            self.nodes(html, &nodes);
            html.markup("</li></ul>\n");
        }
    }

    fn nodes(&self, html: &mut Html, nodes: &[Node]) {
        if nodes.is_empty() {
            return;
        }
        html.markup("<ul>");
        for node in nodes {
            html.markup("<li>");
            self.node(html, node);
            self.nodes(html, &node.address);
            html.markup("</li>");
        }
        html.markup("</ul>");
    }

    fn node(&self, html: &mut Html, node: &Node) {
        match &node.link {
            Link::Waited { share, reason, note, .. } if node.place.is_none() => {
                html.text(&format!("{} {reason}: {note}", percent(*share)));
                return;
            }
            Link::Waited { share, .. } => html.text(&percent(*share)).markup(" waits for "),
            Link::Address { through } => {
                html.markup("its address through ");
                link(html, *through);
                html.markup(" from ")
            }
        };
        let Some((_, producer)) = node.place.and_then(|place| self.listing.find(place)) else {
            html.markup("an instruction that is not listed");
            return;
        };
        link(html, producer.place());
        html.markup(" ").text(words::text(producer));
        if let Link::Waited { note, .. } = &node.link {
            html.markup(" <span class=\"dim\">").text(note).markup("</span>");
        }
        if node.is_loop {
            html.markup(" &#8634;");
        } else {
            self.touched(html, producer);
        }
    }

    fn touched(&self, html: &mut Html, instruction: &Instruction) {
        for touched in words::touches(self.listing, instruction) {
            html.markup("<div>").text(&touched).markup("</div>");
        }
        if let Some(pattern) = words::pattern(instruction) {
            html.markup("<div class=\"dim\">").text(&pattern).markup("</div>");
        }
    }

    fn code(&self, html: &mut Html) {
        let has_lines = !self.listing.lines.is_empty();
        html.markup("<h2>Code</h2>\n<div class=\"split");
        html.markup(if has_lines { "\">\n<div>\n" } else { " alone\">\n" });
        if has_lines {
            let mut by_file: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
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

    /// A file's lines that have instructions, with those around them where the text is here.
    fn source(&self, html: &mut Html, file: &str, mut lines: Vec<&Line>) {
        lines.sort_by_key(|line| line.number);
        html.markup("<div class=\"pane\"><h3 class=\"code\">")
            .text(file)
            .markup(COUNTS)
            .markup("</h3><div class=\"rows\">\n");
        let mut next = 0_u32;
        for line in &lines {
            let context = u32::try_from(CONTEXT).unwrap_or(0);
            let first = line.number.saturating_sub(context).max(next).max(1);
            if next > 0 && first > next {
                html.markup("<div class=\"gap\">⋯</div>\n");
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
        html.markup("</div></div>\n");
    }

    fn plain_line(&self, html: &mut Html, file: &str, line: u32) {
        let Some(text) = self.files.line(file, line) else { return };
        html.markup("<div><span class=\"count\"></span><span class=\"count\"></span><span class=\"place\">");
        html.text(&line.to_string())
            .markup("</span><span class=\"what dim\">")
            .text(text)
            .markup("</span></div>\n");
    }

    fn warm_line(&self, html: &mut Html, line: &Line) {
        let heat = self.listing.share(line.samples);
        html.markup("<div id=\"").text(&self.line_id(&line.file, line.number)).markup("\" style=\"--heat:");
        html.number(heat).markup("\"><span class=\"count\">").text(&count(line.samples));
        html.markup("</span><span class=\"count charged\">").text(&count(line.charged_samples));
        html.markup("</span><span class=\"place\">");
        let is_its = |row: &&Instruction| row.source() == Some((&line.file, line.number));
        match self.listing.instructions.iter().find(is_its) {
            Some(first) => {
                html.markup("<a href=\"#").text(&id(first.place())).markup("\">");
                html.text(&line.number.to_string()).markup("</a>")
            }
            None => html.text(&line.number.to_string()),
        };
        let text = self.files.line(&line.file, line.number).unwrap_or_default();
        html.markup("</span><span class=\"what\">").text(text).markup("</span></div>\n");
    }

    /// A function's instructions with arrows beside them.
    fn function(&self, html: &mut Html, rows: &[&Instruction]) {
        let Some(first) = rows.first() else { return };
        let name = first.function.as_deref().unwrap_or("a function without a name");
        html.markup("<div class=\"pane\"><h3 class=\"code\">")
            .text(name)
            .markup(COUNTS)
            .markup("</h3><div class=\"rows\" style=\"padding-left:");
        let arrows = Arrows::of(self.listing, rows);
        html.number(arrows.width()).markup("px\">\n");
        arrows.draw(html, rows.len());
        for row in rows {
            self.row(html, row);
        }
        html.markup("</div></div>\n");
    }

    fn row(&self, html: &mut Html, row: &Instruction) {
        html.markup("<div id=\"").text(&id(row.place())).markup("\" style=\"--heat:");
        html.number(self.listing.share(row.samples)).markup("\"><span class=\"count\">");
        html.text(&count(row.samples)).markup("</span><span class=\"count charged\">");
        html.text(&count(row.charged_samples))
            .markup("</span><span class=\"place\">")
            .text(&words::pc(row.pc));
        html.markup("</span><span class=\"what\">").text(words::text(row)).markup("</span>");
        if let (Some((file, line)), Some(said)) = (row.source(), words::source(row)) {
            html.markup("<a class=\"what\" href=\"#").text(&self.line_id(file, line)).markup("\">");
            html.text(&said).markup("</a>");
        }
        let mut notes = vec![words::reasons(self.listing, row)];
        notes.extend(words::touches(self.listing, row));
        notes.extend(words::call_path(row));
        notes.retain(|note| !note.is_empty());
        html.markup("<span class=\"dim\">").text(&notes.join("; ")).markup("</span></div>\n");
    }

    /// Names of files may hold anything: their numbers are the anchors.
    fn line_id(&self, file: &str, line: u32) -> String {
        let number = self.listing.lines.iter().position(|known| known.file == file).unwrap_or(0);
        format!("l{number}-{line}")
    }
}

fn link(html: &mut Html, place: Place) {
    html.markup("<a href=\"#").text(&id(place)).markup("\">").text(&words::pc(place.1)).markup("</a>");
}

fn id(place: Place) -> String {
    format!("i{:x}-{:x}", place.0, place.1)
}

fn count(samples: f64) -> String {
    match samples {
        samples if samples < 0.05 => String::new(),
        samples => words::amount(samples),
    }
}
