//! Tables of a comparison.

use stallmap_console::output::html::HtmlPage;
use stallmap_lists::diff::{ChangedPart, MetricChange, ShownComparison};

use crate::report::page::block::PageSection;

/// Changes of one part. Links are of rows: the row, the anchor, the words.
pub(super) fn part(part: &ChangedPart, links: &[(&str, &str, &str)]) -> PageSection {
    let id = match part.title {
        "Kernels" => "kernels",
        "Python lines" => "lines",
        _ => "tensors",
    };
    let mut block = PageSection {
        id,
        title: part.title.to_owned(),
        queries: vec![(part.title.to_owned(), part.sql.clone())],
        ..PageSection::default()
    };
    let html = &mut block.body;
    if part.rows.is_empty() {
        html.markup("<p class=\"dim\">(nothing of this kind was recorded)</p>\n");
        return block;
    }
    html.markup("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"").text(part.title);
    html.markup("\"><table><caption>").text(part.title);
    html.markup("</caption>\n<thead><tr><th scope=\"col\" class=\"n\">values</th><th scope=\"col\" class=\"n\">change</th><th scope=\"col\">interval</th><th scope=\"col\">place</th></tr></thead>\n<tbody>\n");
    part.rows.iter().for_each(|change| row(html, change, links));
    html.markup("</tbody></table></div>\n");
    block
}

fn row(html: &mut HtmlPage, change: &MetricChange, links: &[(&str, &str, &str)]) {
    html.markup(if change.is_noise { "<tr class=\"rest\">" } else { "<tr>" });
    html.markup("<td class=\"n\">").text(&change.values).markup("</td><td class=\"n ");
    html.markup(match change.ratio {
        _ if change.is_noise => "dim",
        Some(ratio) if ratio < 1.0 => "less",
        _ => "greater",
    });
    let words = if change.change == "~" { "not significant" } else { change.change.as_str() };
    html.markup("\">").text(words).markup("</td><td>").text(&change.interval);
    html.markup("</td><th scope=\"row\"><span class=\"text\">").text(&change.name).markup("</span>");
    for kernels in &change.kernels {
        html.markup("<span class=\"below\">").text(kernels).markup("</span>");
    }
    let code: Vec<_> = links.iter().filter(|(what, ..)| *what == change.what && !change.is_noise).collect();
    if !code.is_empty() {
        html.markup("<span class=\"below targets\">");
        for (_, anchor, words) in code {
            html.markup("<a href=\"#").text(anchor).markup("\">code in ").text(words).markup("</a> ");
        }
        html.markup("</span>");
    }
    html.markup("</th></tr>\n");
}

/// Conditions with their results.
pub(super) fn gates(html: &mut HtmlPage, gates: &[(String, bool)]) {
    if gates.is_empty() {
        return;
    }
    html.markup("<ul class=\"trust\">");
    for (condition, holds) in gates {
        html.markup(if *holds { "<li class=\"lossy\">! fails: " } else { "<li class=\"good\">passes: " });
        html.text(condition).markup("</li>");
    }
    html.markup("</ul>\n");
}

/// Facts that differ.
pub(super) fn facts(shown: &ShownComparison) -> PageSection {
    let mut block = PageSection {
        id: "facts",
        title: "Differences in how the captures were made".to_owned(),
        queries: shown.queries.first().cloned().into_iter().collect(),
        ..PageSection::default()
    };
    let html = &mut block.body;
    if shown.facts.is_empty() {
        html.markup("<p class=\"good\">The captures were made alike.</p>\n");
        return block;
    }
    html.markup("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Differences\"><table><caption>Differences</caption>\n<thead><tr><th scope=\"col\">fact</th><th scope=\"col\">base</th><th scope=\"col\">other</th><th scope=\"col\">meaning</th></tr></thead>\n<tbody>\n");
    for fact in &shown.facts {
        html.markup("<tr><th scope=\"row\">").text(&fact.name).markup("</th><td>");
        html.text(&fact.base).markup("</td><td>").text(&fact.value).markup("</td><td>");
        html.text(&fact.meaning).markup("</td></tr>\n");
    }
    html.markup("</tbody></table></div>\n");
    block
}
