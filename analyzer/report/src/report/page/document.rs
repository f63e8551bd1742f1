//! The page around its sections: head, contents, data and script.

use serde_json::{Map, Value};

use super::block::PageSection;
use super::json::embedded;
use crate::source::STYLE as CODE_STYLE;
use stallmap_console::output::html::HtmlPage;
use stallmap_lists::forest::STYLE as FOREST_STYLE;

/// Subject of the page.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageSubject {
    /// Its heading: the capture's file.
    pub(crate) title: String,
    /// The command that wrote it.
    pub(crate) command: String,
    /// Summary of the run: script, GPUs, launches, time.
    pub(crate) facts: String,
    /// The program with its arguments, the GPUs, when.
    pub(crate) program: String,
}

/// The page: one self-contained file.
pub(crate) fn document(subject: &PageSubject, blocks: &[PageSection]) -> String {
    page(subject, blocks, None).text
}

/// The page with a box for SQL, for a browser that reads it from `stallmap serve`.
pub(crate) fn served(subject: &PageSubject, blocks: &[PageSection]) -> ServedPage {
    page(subject, blocks, Some([include_str!("sql.js"), include_str!("sql.css")]))
}

/// A page of a title and content, without scripts.
pub(crate) fn plain(title: &str, body: &HtmlPage) -> ServedPage {
    let subject = PageSubject { title: title.to_owned(), ..PageSubject::default() };
    let mut html = HtmlPage::default();
    html.markup("<main>\n<header>\n<h1>").text(title).markup("</h1>\n</header>\n").piece(body);
    html.markup("</main>\n</body>\n</html>\n");
    let main = html.finish();
    let nonce = nonce(&subject, &main, "");
    let policy = policy(&nonce, "form-action 'self'");
    let mut html = HtmlPage::default();
    head(&mut html, &subject, &nonce, &policy);
    html.markup("</style>\n</head>\n<body class=\"plain\">\n");
    ServedPage { text: html.finish() + &main, policy }
}

/// The page, with the script and the style of a box for SQL if it has one.
fn page(subject: &PageSubject, blocks: &[PageSection], sql: Option<[&'static str; 2]>) -> ServedPage {
    let mut main = HtmlPage::default();
    for block in blocks {
        block.write(&mut main);
    }
    let main = main.finish();
    let named = |(name, data): (&'static str, Value)| (name.to_owned(), data);
    let mut data: Map<String, Value> =
        blocks.iter().filter_map(|block| block.data.clone()).map(named).collect();
    let tables: Map<String, Value> =
        blocks.iter().flat_map(|block| block.tables.clone()).map(named).collect();
    data.insert("tables".to_owned(), Value::Object(tables));
    let data = embedded(&Value::Object(data));
    let nonce = nonce(subject, &main, &data);
    let forms = "form-action 'none'";
    let policy = policy(&nonce, if sql.is_some() { SERVED } else { forms });
    let mut html = HtmlPage::default();
    head(&mut html, subject, &nonce, &policy);
    html.markup(sql.map_or("", |[_, style]| style)).markup("</style>\n</head>\n<body>\n");
    html.markup("<a class=\"skip\" href=\"#verdict\">to the report</a>\n");
    contents(&mut html, blocks);
    html.markup("<main>\n<header>\n<h1>").text(&subject.title).markup("</h1>\n<p class=\"dim\">");
    html.text(&subject.facts).markup("</p>\n</header>\n");
    let mut page = html.finish();
    page += &main;
    let mut html = HtmlPage::default();
    html.markup("<footer class=\"dim\"><p>Recorded from <code>").text(&subject.program);
    html.markup("</code>.</p><p>Written by <code>").text(&subject.command);
    html.markup("</code>. Every number comes from the query next to it. <code>stallmap sql</code> runs it.</p></footer>\n</main>\n");
    html.markup("<script type=\"application/json\" id=\"data\" nonce=\"").text(&nonce).markup("\">");
    page += &html.finish();
    page += &data;
    let mut html = HtmlPage::default();
    html.markup("</script>\n<script nonce=\"").text(&nonce).markup("\">\n\"use strict\";\n");
    for script in SCRIPTS.into_iter().chain(sql.map(|[script, _]| script)) {
        html.drawing(&compact(script));
    }
    html.markup("</script>\n</body>\n</html>\n");
    ServedPage { text: page + &html.finish(), policy }
}

/// A page in a browser's window, and the policy of its content, which the server sends too.
#[derive(Clone, Debug)]
pub struct ServedPage {
    /// The page.
    pub text: String,
    /// Its Content-Security-Policy.
    pub policy: String,
}

/// The box for SQL asks the server that sent the page, and no other.
const SERVED: &str = "connect-src 'self'; form-action 'none'";

/// Nothing is fetched. If text ever became markup, it still could not run, load or style anything.
fn policy(nonce: &str, more: &str) -> String {
    format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; base-uri 'none'; {more}"
    )
}

/// The page's scripts, in order of dependency.
const SCRIPTS: [&str; 7] = [
    include_str!("page.js"),
    include_str!("table.js"),
    include_str!("icicle.js"),
    include_str!("heat.js"),
    include_str!("spans.js"),
    include_str!("timeline.js"),
    include_str!("waves.js"),
];

/// The head up to the end of the style that every page has.
fn head(html: &mut HtmlPage, subject: &PageSubject, nonce: &str, policy: &str) {
    html.markup("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.markup("<meta http-equiv=\"Content-Security-Policy\" content=\"").drawing(policy).markup("\">\n");
    html.markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.markup("<meta name=\"referrer\" content=\"no-referrer\">\n<title>").text(&subject.title);
    html.markup(" - stallmap</title>\n<style nonce=\"").text(nonce).markup("\">\n");
    for style in [CODE_STYLE, FOREST_STYLE, include_str!("page.css")] {
        html.drawing(&compact(style));
    }
}

/// A script or style of the page without indents and lines of comment.
fn compact(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let is_comment = |line: &&str| {
        line.starts_with("//")
            || line.starts_with("/*") && line.find("*/").is_some_and(|end| end + 2 == line.len())
    };
    lines.filter(|line| !line.is_empty() && !is_comment(line)).flat_map(|line| [line, "\n"]).collect()
}

fn contents(html: &mut HtmlPage, blocks: &[PageSection]) {
    html.markup("<nav aria-label=\"Contents\"><strong>stallmap</strong><ul>\n");
    for block in blocks {
        html.markup("<li><a href=\"#")
            .text(block.id)
            .markup("\">")
            .text(short(&block.title))
            .markup("</a></li>\n");
    }
    html.markup("</ul></nav>\n");
}

/// A title as a line of the contents.
fn short(title: &str) -> &str {
    title.split([':', ',']).next().unwrap_or(title)
}

/// A word that no capture can know, because it is derived from the complete page. Only trusted elements carry it. Equal
/// pages are equal to the byte.
fn nonce(subject: &PageSubject, main: &str, data: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [&subject.title, &subject.facts, &subject.program, main, data] {
        hasher.update(part.as_bytes()).update(&[0]);
    }
    hasher.finalize().to_hex().chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_indents_are_left_out() {
        let text = "/** A sum. */\n  let a = 1; // One.\n\n  // Two.\n  /* x */ let b = 2;\n";
        assert_eq!(compact(text), "let a = 1; // One.\n/* x */ let b = 2;\n");
    }

    /// Lines of a text or comment that goes on would lose their indents, or their begin.
    #[test]
    fn no_text_and_no_comment_spans_lines() {
        for script in SCRIPTS {
            assert!(script.lines().all(|line| line.matches('`').count() % 2 == 0));
        }
        for text in SCRIPTS.into_iter().chain([CODE_STYLE, FOREST_STYLE, include_str!("page.css")]) {
            assert!(text.lines().all(|line| line.matches("/*").count() == line.matches("*/").count()));
        }
    }
}
