//! The first screen of the page: the verdict, one bar of all samples, the first findings, and their completeness.

use stallmap_console::answer::SectionAnswer;
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::rows;

use super::ask::read;
use super::block::{PageSection, prose};
use super::links::{PageLinks, finding_anchor, tensor_anchor};
use super::table::link;
use super::warps::RequestPictures;
use stallmap_lists::verdict::{FindingRow, SampleShare, ShareKind, VerdictRows};

/// Height of the bar in pixels.
const HEIGHT: u32 = 34;
/// A share with less percent has no text in the bar.
const LEAST_TEXT: u32 = 4;

/// Findings that a warp's request explains.
const OF_REQUESTS: [&str; 5] =
    ["uncoalesced_view", "uncoalesced_access", "scattered_access", "misaligned_access", "atomic_wait"];

rows! {
    /// Targets of a finding, by rank.
    #[derive(Clone, Debug)]
    struct FindingTarget {
        line: Option<String>,
        tensor_id: Option<u64>,
    }
}

/// The section.
pub(super) fn block(
    verdict: &VerdictRows,
    findings: &SectionAnswer,
    pictures: &RequestPictures,
    links: &PageLinks,
) -> Outcome<PageSection> {
    let targets: Vec<FindingTarget> = read(findings)?;
    let mut block = PageSection { id: "verdict", title: "Verdict".to_owned(), ..PageSection::default() };
    block.queries = verdict.queries();
    let html = &mut block.body;
    html.markup("<p class=\"sentence\">").text(&verdict.sentence).markup("</p>\n");
    if !verdict.shares.is_empty() {
        bar(html, &verdict.shares);
    }
    if !verdict.findings.is_empty() {
        html.markup("<div class=\"cards\">\n");
        for finding in &verdict.findings {
            let row = usize::try_from(finding.number.saturating_sub(1)).unwrap_or(usize::MAX);
            card(html, finding, (row, targets.get(row)), (pictures, links));
        }
        html.markup("</div>\n");
    }
    html.markup("<ul class=\"trust\">");
    for (is_loss, text) in verdict.trust() {
        html.markup(if is_loss { "<li class=\"lossy\"><a href=\"#losses\">! " } else { "<li>" });
        html.text(&text).markup(if is_loss { "</a></li>" } else { "</li>" });
    }
    html.markup("<li><a href=\"#coverage\">coverage in full</a></li></ul>\n");
    Ok(block)
}

/// One stacked bar: the full width is all samples. A list below it has the same shares as text.
fn bar(html: &mut HtmlPage, shares: &[SampleShare]) {
    let words: Vec<String> =
        shares.iter().map(|share| format!("{} {}", share.label, share.percent())).collect();
    html.markup("<svg class=\"shares\" role=\"img\" height=\"")
        .text(&HEIGHT.to_string())
        .markup("\" aria-label=\"");
    html.text(&format!("All samples: {}", words.join(", "))).markup("\">");
    let mut start = 0.0;
    for (place, share) in shares.iter().enumerate() {
        let (x, width) = (format!("{start:.2}%"), format!("{:.2}%", share.part * 100.0));
        html.markup("<svg x=\"").text(&x).markup("\" width=\"").text(&width).markup("\"><title>");
        html.text(&format!("{} {}", share.percent(), share.label))
            .markup("</title><g><rect width=\"100%\" height=\"100%\" class=\"");
        html.text(class(share.kind, place)).markup("\"/>");
        if share.percent >= LEAST_TEXT {
            html.markup("<text x=\"8\" y=\"21\">")
                .text(&format!("{} {}", share.percent(), short(share)))
                .markup("</text>");
        }
        html.markup("</g></svg>");
        start += share.part * 100.0;
    }
    html.markup("</svg>\n<ul class=\"legend\">");
    for (place, share) in shares.iter().enumerate() {
        html.markup(
            "<li><svg class=\"swatch\" aria-hidden=\"true\"><rect width=\"100%\" height=\"100%\" class=\"",
        );
        html.text(class(share.kind, place)).markup("\"/></svg>");
        let texts = [share.percent(), share.label.clone(), share.detail.clone(), share.place.clone()];
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        html.text(&texts.join(" · ")).markup("</li>");
    }
    html.markup("</ul>\n");
}

/// A label in the bar: of a line only its number, because the list below has the file.
fn short(share: &SampleShare) -> &str {
    let place = share.label.split(' ').next().unwrap_or_default();
    match place.rfind(':') {
        Some(colon) if share.kind == ShareKind::Line => place.get(colon..).unwrap_or(place),
        _ => &share.label,
    }
}

/// Class of a share's colour. Shares of tensors, lines and modules differ by their place.
const fn class(kind: ShareKind, place: usize) -> &'static str {
    match (kind, place) {
        (ShareKind::OtherTensors, _) => "t3",
        (ShareKind::Memory, _) => "t4",
        (ShareKind::Other, _) => "t5",
        (_, 0) => "t0",
        (_, 1) => "t1",
        (_, 2) => "t2",
        _ => "t3",
    }
}

/// A finding: kind and bound, place, fact, one warp's request, advice, and links to its parts.
fn card(
    html: &mut HtmlPage,
    finding: &FindingRow,
    (row, target): (usize, Option<&FindingTarget>),
    (pictures, links): (&RequestPictures, &PageLinks),
) {
    html.markup("<article class=\"card\"><h3>").text(&finding.kind());
    html.markup(" <span class=\"save\">").text(&finding.bound()).markup("</span></h3>\n");
    if let Some(line) = &finding.line {
        html.markup("<p class=\"dim code\">").text(line).markup("</p>\n");
    }
    if let Some(text) = &finding.text {
        html.markup("<p class=\"code quote\">").text(text).markup("</p>\n");
    }
    html.markup("<p>");
    prose(html, finding.fact.as_deref().unwrap_or_default());
    html.markup("</p>\n");
    let tensor = target.and_then(|target| target.tensor_id);
    let is_drawn = OF_REQUESTS.contains(&finding.class.as_str());
    if let Some(warp) = tensor.filter(|_| is_drawn).and_then(|tensor| pictures.warp(tensor)) {
        warp.draw(html);
    }
    html.markup("<p class=\"advice\">→ ");
    prose(html, finding.advice.as_deref().unwrap_or_default());
    html.markup("</p>\n<p class=\"targets\">");
    match target {
        Some(_) => link(html, &finding_anchor(row), "details and SQL"),
        None => link(html, "findings", "all findings"),
    };
    let line = target.and_then(|target| links.line(target.line.as_deref()?)).map(str::to_owned);
    let code = tensor.and_then(|tensor| links.wait(tensor)).and_then(|place| links.instruction(place));
    let tensor = tensor.and_then(|tensor| links.found(tensor_anchor(tensor)));
    for (anchor, words) in [(line, "line"), (code.map(str::to_owned), "code"), (tensor, "tensor")] {
        if let Some(anchor) = anchor {
            html.markup(" ");
            link(html, &anchor, words);
        }
    }
    html.markup("</p></article>\n");
}
