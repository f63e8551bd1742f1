//! The first screen of the page: the verdict, one bar of all samples, the first findings, and their completeness.

use stallmap_console::output::html::Html;

use super::block::Block;
use crate::verdict::{Finding, Kind, Share, Verdict};

/// Height of the bar in pixels.
const HEIGHT: u32 = 34;
/// A share with less percent has no text in the bar.
const LEAST_TEXT: u32 = 4;

/// The section.
pub(super) fn block(verdict: &Verdict) -> Block {
    let mut block = Block { id: "verdict", title: "Verdict".to_owned(), ..Block::default() };
    block.queries = verdict.queries();
    let html = &mut block.body;
    html.markup("<p class=\"sentence\">").text(&verdict.sentence).markup("</p>\n");
    if !verdict.shares.is_empty() {
        bar(html, &verdict.shares);
    }
    if !verdict.findings.is_empty() {
        html.markup("<div class=\"cards\">\n");
        verdict.findings.iter().for_each(|finding| card(html, finding));
        html.markup("</div>\n");
    }
    html.markup("<ul class=\"trust\">");
    for (is_loss, text) in verdict.trust() {
        html.markup(if is_loss { "<li class=\"lossy\"><a href=\"#losses\">! " } else { "<li>" });
        html.text(&text).markup(if is_loss { "</a></li>" } else { "</li>" });
    }
    html.markup("<li><a href=\"#coverage\">coverage in full</a></li></ul>\n");
    block
}

/// One stacked bar: the full width is all samples. A list below it has the same shares as text.
fn bar(html: &mut Html, shares: &[Share]) {
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
                .text(&format!("{} {}", share.percent(), share.label))
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

/// Class of a share's colour. Shares of tensors and lines differ by their place.
const fn class(kind: Kind, place: usize) -> &'static str {
    match (kind, place) {
        (Kind::Tensor | Kind::Line, 0) => "t0",
        (Kind::Tensor | Kind::Line, 1) => "t1",
        (Kind::Tensor | Kind::Line, 2) => "t2",
        (Kind::Tensor | Kind::Line | Kind::OtherTensors, _) => "t3",
        (Kind::Memory, _) => "t4",
        (Kind::Other, _) => "t5",
    }
}

/// A finding: kind and bound, place, fact, advice.
fn card(html: &mut Html, finding: &Finding) {
    html.markup("<article class=\"card\"><h3>").text(&finding.kind());
    html.markup(" <span class=\"save\">").text(&finding.bound()).markup("</span></h3>\n");
    if let Some(line) = &finding.line {
        html.markup("<p class=\"dim code\">").text(line).markup("</p>\n");
    }
    if let Some(text) = &finding.text {
        html.markup("<p class=\"code\">").text(text).markup("</p>\n");
    }
    html.markup("<p>").text(finding.fact.as_deref().unwrap_or_default()).markup("</p>\n<p>→ ");
    html.text(finding.advice.as_deref().unwrap_or_default()).markup("</p>\n");
    html.markup("<p><a href=\"#findings\">all findings</a></p></article>\n");
}
