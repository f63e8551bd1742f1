//! The paths of the server.
//!
//! | path | reply |
//! |---|---|
//! | `/` | the list of captures, or the page of the only one |
//! | `/capture/NAME` | its page |
//! | `/capture/NAME/names` | views, tables and examples for the box for SQL |
//! | `/capture/NAME/rows` | rows of the statement that was sent |
//! | `/capture/NAME/rows.csv?sql=…`, `.json`, `.parquet` | a file with all rows |

use std::sync::Arc;

use stallmap_console::args::RowFormat;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::number::{counted, grouped};
use stallmap_console::output::shorten::printable;
use stallmap_report::report::served::plain;
use tonic::codegen::http::StatusCode;

use super::channel::WebChannel;
use super::hall::{ServedCapture, ServedCaptures};
use super::host::RequestEnd;
use super::names;
use super::reply::WebReply;
use super::request::{HttpRequest, parameter};
use super::rows;
use crate::query::QueryFault;

/// Most bytes of a body: a statement.
pub(crate) const MAX_BODY_BYTES: usize = 1 << 20;
/// The type of a statement. No form of another site can send it.
const STATEMENT: &str = "application/sql";

/// Formats of files: ending, type, format.
const FILES: [(&str, &str, RowFormat); 3] = [
    ("csv", "text/csv;charset=utf-8", RowFormat::Csv),
    ("json", "application/json", RowFormat::Json),
    ("parquet", "application/vnd.apache.parquet", RowFormat::Parquet),
];

/// The reply to an admitted request. None if it was written already.
pub(crate) async fn answer(
    hall: &ServedCaptures,
    channel: &mut WebChannel,
    request: &HttpRequest,
    body: &str,
    limit: &RequestEnd,
) -> Result<Option<WebReply>, QueryFault> {
    let path = request.path.strip_prefix("/capture/").unwrap_or_default();
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let (is_get, is_post) = (request.method == "GET", request.method == "POST");
    if request.path == "/" && is_get {
        return Ok(Some(first(hall)));
    }
    if request.path == "/favicon.ico" && is_get {
        return Ok(Some(WebReply::empty(StatusCode::NO_CONTENT)));
    }
    let Some(capture) = hall.capture(name) else {
        return Ok(Some(WebReply::text(
            StatusCode::NOT_FOUND,
            "there is no such page: / lists the captures",
        )));
    };
    match rest {
        "" if is_get => page(hall, capture, channel).await.map(Some),
        "names" if is_get => Ok(Some(names::reply(hall, &capture.session))),
        "rows" if is_post && request.field("content-type") != Some(STATEMENT) => Ok(Some(WebReply::text(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send the statement as application/sql",
        ))),
        "rows" if is_post => rows::shown(hall, capture, body, channel, limit).await.map(Some),
        rest if is_get => {
            let ending = rest.strip_prefix("rows.").unwrap_or_default();
            match FILES.iter().find(|(known, ..)| *known == ending) {
                Some((_, kind, format)) => {
                    let sql = parameter(&request.query, "sql").unwrap_or_default();
                    let reply = WebReply::file(kind, &format!("{}-rows.{ending}", capture.name));
                    rows::file(hall, capture, &sql, (reply, *format), (channel, limit)).await.map(|()| None)
                }
                None => Ok(Some(WebReply::text(
                    StatusCode::NOT_FOUND,
                    "there is no such page: / lists the captures",
                ))),
            }
        }
        _ => Ok(Some(WebReply::text(StatusCode::METHOD_NOT_ALLOWED, "the page has another method"))),
    }
}

/// The page of a capture.
async fn page(
    hall: &ServedCaptures,
    capture: &Arc<ServedCapture>,
    channel: &mut WebChannel,
) -> Result<WebReply, QueryFault> {
    let page = tokio::select! {
        biased;
        () = channel.closed() => return Err(QueryFault::Gone(std::io::ErrorKind::ConnectionReset.into())),
        page = hall.page(capture) => page,
    };
    Ok(match page {
        Ok(page) => WebReply::page(StatusCode::OK, &page),
        Err(failure) => WebReply::text(StatusCode::INTERNAL_SERVER_ERROR, &printable(&failure.to_string())),
    })
}

/// The list of captures. A single one is shown at once.
fn first(hall: &ServedCaptures) -> WebReply {
    if let [only] = hall.captures() {
        return WebReply::to(&format!("/capture/{}", only.name));
    }
    let mut html = HtmlPage::default();
    html.markup("<p class=\"dim\">").text(&counted(hall.captures().len() as u64, "capture", "captures"));
    html.markup(". Each page has a box for SQL, in which <code>NAME.TABLE</code> is a table of another capture.</p>\n");
    html.markup(
        "<div class=\"scroll\"><table><caption>Captures</caption>\n<thead><tr><th scope=\"col\">name</th>",
    );
    html.markup(
        "<th scope=\"col\">file</th><th scope=\"col\" class=\"n\">launches</th></tr></thead>\n<tbody>\n",
    );
    for capture in hall.captures() {
        html.markup("<tr><th scope=\"row\"><a href=\"/capture/").text(&capture.name).markup("\">");
        html.text(&capture.name).markup("</a></th><td>").text(&capture.location.display().to_string());
        let open = capture.session.captures().first();
        let launches = open.and_then(|open| open.tables.get("launch")).map_or(0, |table| table.rows());
        html.markup("</td><td class=\"n\">").text(&grouped(launches.into())).markup("</td></tr>\n");
    }
    html.markup("</tbody></table></div>\n");
    WebReply::page(StatusCode::OK, &plain("Captures", &html))
}
