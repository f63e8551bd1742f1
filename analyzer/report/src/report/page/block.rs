//! A section of the page: heading, text, content, and the queries behind its numbers.

use serde_json::Value;

use stallmap_console::answer::SectionAnswer;
use stallmap_console::output::html::HtmlPage;

/// A section.
#[derive(Debug, Default)]
pub(crate) struct PageSection {
    /// Its anchor.
    pub(crate) id: &'static str,
    /// Its heading, and its line in the contents.
    pub(crate) title: String,
    /// Its text, line by line.
    pub(crate) doc: Vec<&'static str>,
    /// Its content.
    pub(crate) body: HtmlPage,
    /// Its queries: title and text.
    pub(crate) queries: Vec<(String, String)>,
    /// Data of its drawing, by the name that the script uses.
    pub(crate) data: Option<(&'static str, Value)>,
    /// Its tables that the script makes, by the names of their places.
    pub(crate) tables: Vec<(&'static str, Value)>,
}

impl PageSection {
    /// The section of a result, still empty.
    pub(crate) fn for_answer(id: &'static str, answer: &SectionAnswer) -> Self {
        let title = answer.section.title().to_owned();
        let queries = vec![(title.clone(), answer.sql.clone())];
        Self { id, title, doc: answer.section.doc().collect(), queries, ..Self::default() }
    }

    /// Adds another query of the section.
    pub(crate) fn asked(&mut self, answer: &SectionAnswer) {
        self.queries.push((answer.section.title().to_owned(), answer.sql.clone()));
    }

    /// Writes it.
    pub(crate) fn write(&self, html: &mut HtmlPage) {
        html.markup("<section id=\"").text(self.id).markup("\" aria-labelledby=\"").text(self.id);
        html.markup("-title\">\n<h2 id=\"").text(self.id).markup("-title\">").text(&self.title);
        html.markup(" <a class=\"anchor\" href=\"#").text(self.id).markup("\" aria-label=\"link to ");
        html.text(&self.title).markup("\">#</a></h2>\n");
        self.intro(html);
        html.piece(&self.body);
        queries(html, &self.queries);
        html.markup("</section>\n");
    }

    /// The first sentence of its text, the rest behind a question mark.
    fn intro(&self, html: &mut HtmlPage) {
        let text = self.doc.join(" ");
        let (first, rest) = text.split_once(". ").unwrap_or((&text, ""));
        if first.is_empty() {
            return;
        }
        html.markup("<div class=\"doc\">");
        prose(html, first);
        html.markup(if rest.is_empty() || first.ends_with('.') { "" } else { "." });
        if !rest.is_empty() {
            html.markup(" <details class=\"more\"><summary aria-label=\"more about ").text(&self.title);
            html.markup("\">?</summary><p>");
            prose(html, rest);
            html.markup("</p></details>");
        }
        html.markup("</div>\n");
    }
}

/// Text with code between backticks.
pub(crate) fn prose(html: &mut HtmlPage, text: &str) {
    for (at, piece) in text.split('`').enumerate() {
        let is_code = at % 2 == 1;
        html.markup(if is_code { "<code>" } else { "" }).text(piece);
        html.markup(if is_code { "</code>" } else { "" });
    }
}

/// Queries behind numbers, collapsed.
fn queries(html: &mut HtmlPage, queries: &[(String, String)]) {
    if queries.is_empty() {
        return;
    }
    html.markup("<details class=\"sql\"><summary>SQL</summary>\n");
    for (title, sql) in queries {
        html.markup("<figure><figcaption>").text(title).markup("</figcaption><pre tabindex=\"0\"><code>");
        html.text(sql).markup("</code></pre></figure>\n");
    }
    html.markup("</details>\n");
}
