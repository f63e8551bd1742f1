//! A kernel's code as one page that opens offline, or as a part of another: no scripts, no external resources, light
//! and dark.

mod arrows;
mod code;
mod excerpt;

use std::collections::BTreeMap;
use std::path::Path;

use self::excerpt::ListingExcerpt;
use super::chain::{ChainLink, ChainNode, chain};
use super::file::SourceTexts;
use super::fold::{InstructionFold, folds};
use super::group::InstructionGroup;
use super::listing::{CodeAddress, KernelListing, ListingInstruction};
use super::words;
use crate::glossary::meaning;
use crate::reason;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::number::percent;
use stallmap_console::output::shorten::printable;

/// Reasons in the bar.
const MAX_REASONS: usize = 8;

/// Style of code, for every page that shows it.
pub const STYLE: &str = include_str!("page/code.css");

/// The page of one kernel.
pub(super) fn page(
    listing: &KernelListing,
    files: &SourceTexts,
    groups: &[InstructionGroup<'_>],
    top: usize,
    capture: &Path,
) -> String {
    let capture = capture.file_name().unwrap_or(capture.as_os_str()).to_string_lossy();
    let capture = printable(&capture);

    let page = CodePage {
        listing,
        files,
        prefix: "",
        headings: ALONE,
        excerpt: ListingExcerpt::for_listing(listing, usize::MAX),
    };
    let nonce = nonce(listing);
    let mut html = HtmlPage::default();
    html.markup("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // If text ever became markup, it still could not run or load anything, or change the page's style.
    html.markup(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'nonce-",
    );
    html.text(&nonce).markup("'; base-uri 'none'; form-action 'none'\">\n");
    html.markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    html.text(&listing.kernel.name)
        .markup(" - ")
        .text(&capture)
        .markup(" - stallmap</title>\n<style nonce=\"")
        .text(&nonce)
        .markup("\">\n");
    html.markup(include_str!("page/style.css")).markup(STYLE).markup("</style>\n</head>\n<body>\n");
    html.markup("<main>\n<header>\n<h1 class=\"code\">").text(&listing.kernel.name).markup("</h1>\n");
    if listing.kernel.full_name != listing.kernel.name {
        html.markup("<div class=\"dim code\">").text(&listing.kernel.full_name).markup("</div>\n");
    }
    html.markup("<div class=\"dim\">");
    html.text(&words::facts(&listing.kernel))
        .markup("<br>")
        .text(&words::code(&listing.kernel))
        .markup("</div>\n</header>\n")
        .markup(reason::HATCH);
    page.body(&mut html, groups, top);
    html.markup("<footer class=\"dim\"><p>One kernel of <code>").text(&capture);
    html.markup("</code>. <code>stallmap open ").text(&capture);
    html.markup("</code> shows the page of all: findings, tensors, lines, memory.</p></footer>\n");
    html.markup("</main>\n</body>\n</html>\n");
    html.finish()
}

/// A kernel as a part of a page: its anchors begin with a prefix, and only the hottest rows of long code are shown. The
/// other value is the anchors of its instructions.
pub(super) fn part(
    listing: &KernelListing,
    files: &SourceTexts,
    groups: &[InstructionGroup<'_>],
    (top, most_rows): (usize, usize),
    prefix: &str,
) -> (HtmlPage, Vec<(CodeAddress, String)>) {
    let page = CodePage {
        listing,
        files,
        prefix,
        headings: PART,
        excerpt: ListingExcerpt::for_listing(listing, most_rows),
    };
    let mut html = HtmlPage::default();
    page.body(&mut html, groups, top);
    let places =
        listing.instructions.iter().map(ListingInstruction::place).filter(|place| page.excerpt.has(*place));
    let places = places.map(|place| (place, page.id(place))).collect();
    (html, places)
}

/// Legend of the columns and arrows of code.
pub(super) const LEGEND: &str = "samples: warps that waited there. charged: warps, there or elsewhere, that waited for its loads or stores. sectors: per request, and the ideal. Arrows lead from a producer to the instructions that waited for it.";

/// A word that no capture can know: only trusted elements carry it. It is derived from the code: equal code gives equal
/// pages.
fn nonce(listing: &KernelListing) -> String {
    blake3::hash(format!("{listing:?}").as_bytes()).to_hex().chars().take(32).collect()
}

/// The tags around headings of parts, and around those of panes.
type HeadingTags = [[&'static str; 2]; 2];

/// Headings of a separate page.
const ALONE: HeadingTags = [["<h2>", "</h2>\n"], ["<h3 class=\"code\">", "</h3>"]];
/// Headings of a part of a page.
const PART: HeadingTags = [["<h4>", "</h4>\n"], ["<h5 class=\"code\">", "</h5>"]];

/// A kernel's code as a piece of a page.
struct CodePage<'a> {
    listing: &'a KernelListing,
    files: &'a SourceTexts,
    /// Prefix of anchors, unique per kernel.
    prefix: &'a str,
    headings: HeadingTags,
    excerpt: ListingExcerpt<'a>,
}

impl CodePage<'_> {
    /// Everything below the title.
    fn body(&self, html: &mut HtmlPage, groups: &[InstructionGroup<'_>], top: usize) {
        if let Some(reason) = &self.listing.kernel.not_read_because {
            html.markup("<p class=\"warning\">Its code could not be decoded: ").text(reason).markup("</p>\n");
        }
        self.reasons(html);
        self.hottest(html, groups, top);
        self.waits(html, groups, top);
        self.code(html);
    }

    fn heading(&self, html: &mut HtmlPage, text: &'static str) {
        let [[begin, end], _] = self.headings;
        html.markup(begin).markup(text).markup(end);
    }

    /// The kernel's samples by reason, as a bar and as text.
    fn reasons(&self, html: &mut HtmlPage) {
        let mut totals: BTreeMap<&str, f64> = BTreeMap::new();
        for instruction in &self.listing.instructions {
            for reason in self.listing.reasons(instruction.place()) {
                *totals.entry(&reason.name).or_default() += reason.samples;
            }
        }
        let mut totals: Vec<(&str, f64)> = totals.into_iter().collect();
        totals.sort_by(|a, b| b.1.total_cmp(&a.1));
        totals.truncate(MAX_REASONS);
        html.markup("<svg class=\"reasons\" aria-hidden=\"true\">");
        let mut before = 0.0;
        for &(name, samples) in &totals {
            let share = self.listing.share(samples);
            reason::part(html, name, reason::is_memory(name), (before, share));
            before += share;
        }
        html.markup("</svg>\n<ul class=\"reasons-list\">");
        for (name, samples) in totals {
            html.markup("<li>").text(&percent(self.listing.share(samples))).markup(" <b>").text(name);
            html.markup("</b> ").text(meaning(name).unwrap_or_default()).markup("</li>");
        }
        html.markup("</ul>\n");
    }

    fn hottest(&self, html: &mut HtmlPage, groups: &[InstructionGroup<'_>], top: usize) {
        self.heading(html, "Hottest locations");
        html.markup("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Hottest locations\"><table aria-label=\"Hottest locations\">\n<tr><th colspan=\"2\">share</th><th class=\"number\">samples</th><th class=\"number\">charged</th><th class=\"number\">sectors</th><th>where</th><th>code</th></tr>\n");
        for group in groups.iter().take(top) {
            let share = self.listing.share(group.samples);
            html.markup("<tr><td><svg class=\"bar\" aria-hidden=\"true\"><rect width=\"").percent(share);
            html.markup("\" height=\"12\"/></svg></td><td class=\"number\">").text(&percent(share));
            html.markup("</td><td class=\"number\">").text(&words::amount(group.samples));
            html.markup("</td><td class=\"number\">").text(&words::amount(group.charged));
            let sectors = group.instructions.iter().find_map(|row| words::sectors(row)).unwrap_or_default();
            html.markup("</td><td class=\"number\">").text(&sectors).markup("</td><td>");
            self.place_of(html, group);
            html.markup("</td><td>");
            match group.source.and_then(|(file, line)| self.files.line(file, line)) {
                Some(text) => html.text(text.trim()),
                None => html.text(&self.equal(group)),
            };
            html.markup("</td></tr>\n");
        }
        html.markup("</table></div>\n");
    }

    /// Equal instructions as one: `×8 LDG.32 R4`.
    fn equal(&self, group: &InstructionGroup<'_>) -> String {
        let first = folds(self.listing, &group.instructions).into_iter().next();
        first.map_or_else(String::new, |fold| fold.times() + words::text(fold.first))
    }

    /// Location of a group, as a link.
    fn place_of(&self, html: &mut HtmlPage, group: &InstructionGroup<'_>) {
        match (group.source, group.instructions.first()) {
            (Some((file, line)), _) if !self.excerpt.has_line(file, line) => {
                html.text(&format!("{}:{line}", words::file_name(file)));
            }
            (Some((file, line)), _) => {
                html.markup("<a href=\"#").text(&self.line_id(file, line)).markup("\">");
                html.text(&format!("{}:{line}", words::file_name(file))).markup("</a>");
            }
            (None, Some(instruction)) => self.link(html, instruction.place()),
            (None, None) => {}
        }
    }

    /// Producers of the hottest locations: a tree for each of their instructions.
    fn waits(&self, html: &mut HtmlPage, groups: &[InstructionGroup<'_>], top: usize) {
        self.heading(html, "Producers");
        let hot: Vec<Vec<InstructionFold<'_>>> =
            groups.iter().take(top).map(|group| folds(self.listing, &group.instructions)).collect();
        for fold in hot.iter().flatten() {
            let instruction = fold.first;
            let nodes = chain(self.listing, instruction.place());
            if nodes.is_empty() {
                continue;
            }
            html.markup("<ul class=\"chain\"><li>");
            self.link(html, instruction.place());
            html.markup(" ").text(&fold.times()).text(words::text(instruction));
            html.markup(" <span class=\"dim\">")
                .text(&words::reasons(self.listing, &fold.all))
                .markup("</span>");
            self.nodes(html, &nodes);
            html.markup("</li></ul>\n");
        }
    }

    fn nodes(&self, html: &mut HtmlPage, nodes: &[ChainNode]) {
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

    fn node(&self, html: &mut HtmlPage, node: &ChainNode) {
        match &node.link {
            ChainLink::Waited { share, reason, note, .. } if node.place.is_none() => {
                html.text(&format!("{} {reason}: {note}", percent(*share)));
                return;
            }
            ChainLink::Waited { share, .. } => html.text(&percent(*share)).markup(" waits for "),
            ChainLink::Address { through } => {
                html.markup("its operands through ");
                self.link(html, *through);
                html.markup(" from ")
            }
        };
        let Some((_, producer)) = node.place.and_then(|place| self.listing.find(place)) else {
            html.markup("an instruction that is not listed");
            return;
        };
        self.link(html, producer.place());
        html.markup(" ").text(words::text(producer));
        if let ChainLink::Waited { note, .. } = &node.link {
            html.markup(" <span class=\"dim\">");
            reason::explained(html, note);
            html.markup("</span>");
        }
        if node.is_loop {
            html.markup(" &#8634;");
        } else {
            self.touched(html, producer);
        }
    }

    fn touched(&self, html: &mut HtmlPage, instruction: &ListingInstruction) {
        for touched in words::touches(self.listing, instruction) {
            html.markup("<div>").text(&touched).markup("</div>");
        }
        if let Some(pattern) = words::pattern(instruction) {
            html.markup("<div class=\"dim\">").text(&pattern).markup("</div>");
        }
    }

    /// Names of files may contain anything: their numbers are the anchors.
    fn line_id(&self, file: &str, line: u32) -> String {
        let number = self.listing.lines.iter().position(|known| known.file == file).unwrap_or(0);
        format!("{}l{number}-{line}", self.prefix)
    }

    fn id(&self, place: CodeAddress) -> String {
        // Short: a page has thousands of them.
        let functions = self.listing.instructions.chunk_by(|a, b| a.place().0 == b.place().0);
        let function =
            functions.into_iter().position(|rows| rows.first().is_some_and(|row| row.place().0 == place.0));
        format!("{}i{}-{:x}", self.prefix, function.unwrap_or(0), place.1)
    }

    fn link(&self, html: &mut HtmlPage, place: CodeAddress) {
        if !self.excerpt.has(place) {
            html.text(&words::pc(place.1));
            return;
        }
        html.markup("<a href=\"#")
            .text(&self.id(place))
            .markup("\">")
            .text(&words::pc(place.1))
            .markup("</a>");
    }
}
