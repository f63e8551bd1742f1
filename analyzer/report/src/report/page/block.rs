//! A section of the page: heading, text, content, and the queries behind its numbers.

use serde_json::Value;

use stallmap_console::answer::Answer;
use stallmap_console::output::html::Html;

/// A section.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// Its anchor.
    pub(super) id: &'static str,
    /// Its heading, and its line in the contents.
    pub(super) title: String,
    /// Its text, line by line.
    pub(super) doc: Vec<&'static str>,
    /// Its content.
    pub(super) body: Html,
    /// Its queries: title and text.
    pub(super) queries: Vec<(String, String)>,
    /// Data of its drawing, by the name that the script uses.
    pub(super) data: Option<(&'static str, Value)>,
}

impl Block {
    /// The section of a result, still empty.
    pub(super) fn of(id: &'static str, answer: &Answer) -> Self {
        let title = answer.section.title().to_owned();
        let queries = vec![(title.clone(), answer.sql.clone())];
        Self { id, title, doc: answer.section.doc().collect(), queries, ..Self::default() }
    }

    /// Adds another query of the section.
    pub(super) fn asked(&mut self, answer: &Answer) {
        self.queries.push((answer.section.title().to_owned(), answer.sql.clone()));
    }

    /// Writes it.
    pub(super) fn write(&self, html: &mut Html) {
        html.markup("<section id=\"").text(self.id).markup("\" aria-labelledby=\"").text(self.id);
        html.markup("-title\">\n<h2 id=\"").text(self.id).markup("-title\">").text(&self.title);
        html.markup(" <a class=\"anchor\" href=\"#").text(self.id).markup("\" aria-label=\"link to ");
        html.text(&self.title).markup("\">#</a></h2>\n");
        if !self.doc.is_empty() {
            html.markup("<p class=\"doc\">").text(&self.doc.join(" ")).markup("</p>\n");
        }
        html.piece(&self.body);
        queries(html, &self.queries);
        html.markup("</section>\n");
    }
}

/// Queries behind numbers, collapsed.
pub(super) fn queries(html: &mut Html, queries: &[(String, String)]) {
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
