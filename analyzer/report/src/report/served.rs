//! Pages for a browser that asks `stallmap serve`.

use std::path::Path;

use stallmap::location::CaptureLocation;
use stallmap::session::Session;
use stallmap_console::args::filter::FilterArgs;
use stallmap_console::args::{ReportArgs, ReportFormat};
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::HtmlPage;
use stallmap_lists::verdict::VerdictRows;

use super::page::{self, document};
use super::subject;
pub use document::ServedPage;

/// The page of a capture: that of `stallmap report --html` with a box for SQL. `root` is the folder of source files.
///
/// # Errors
/// Fails if a query of the page fails.
pub async fn page(session: &Session, capture: &CaptureLocation, root: Option<&Path>) -> Outcome<ServedPage> {
    let args = ReportArgs { root: root.map(Path::to_owned), ..report(capture) };
    let program = subject::subject(session).await?;
    let verdict = VerdictRows::from_session(session).await?;
    page::served(&args, session, &program, &verdict).await
}

/// A page of a title and content, in the style of reports, without scripts.
pub fn plain(title: &str, body: &HtmlPage) -> ServedPage {
    document::plain(title, body)
}

/// The options of a report without any.
pub(crate) fn report(capture: &CaptureLocation) -> ReportArgs {
    ReportArgs {
        capture: capture.clone(),
        over: Vec::new(),
        format: ReportFormat::Text,
        json: false,
        all: false,
        filter: FilterArgs::default(),
        top: None,
        section: Vec::new(),
        sql: false,
        html: None,
        open: false,
        baseline: None,
        root: None,
    }
}
