//! The box for SQL of a page from `stallmap serve`. Its script asks the server, and draws the rows.

use super::block::PageSection;

/// The box, still without rows.
pub(super) fn block() -> PageSection {
    let mut block = PageSection {
        id: "sql",
        title: "SQL".to_owned(),
        doc: vec![
            "Type a statement and press Ctrl-Enter. The address of this page has the statement, for a link.",
        ],
        ..PageSection::default()
    };
    block.body.markup(include_str!("sql.html"));
    block
}
