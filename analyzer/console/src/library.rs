//! The saved queries of the user's library.

use stallmap::session::Session;

use super::names::nearest;
use crate::args::named::is_statement;
use crate::exit::{CommandFailure, Outcome, USAGE};
use crate::output::table::TextTable;

/// Names the folder if no option does.
pub const VARIABLE: &str = "STALLMAP_LIBRARY";

/// A saved query with values for its parameters.
pub fn saved_query(session: &Session, name: &str, values: &[(String, String)]) -> Outcome<String> {
    let names = || session.queries().iter().map(|query| query.name.as_str());
    let Some(query) = session.queries().iter().find(|query| query.name == name) else {
        let hint = match nearest(name, names()) {
            _ if is_statement(name) => "this is a statement: put -c before it".to_owned(),
            Some(near) => format!("did you mean `{near}`?"),
            None if session.queries().is_empty() => {
                format!("name a folder of .sql files with --library DIR, or set {VARIABLE}")
            }
            None => format!("saved queries: {}", names().collect::<Vec<_>>().join(", ")),
        };
        return Err(CommandFailure::message(USAGE, format!("no saved query `{name}`")).hint(hint));
    };
    query.filled(values).map_err(|error| {
        let text = error.to_string();
        let (message, hint) = text.split_once("; hint: ").unwrap_or((&text, ""));
        CommandFailure::message(USAGE, message).hint((!hint.is_empty()).then(|| hint.to_owned()))
    })
}

/// The saved queries with titles and parameters.
pub fn saved_queries(session: &Session) -> TextTable {
    let rows = session.queries().iter().map(|query| {
        let parameters = query.parameters.iter().map(|parameter| match &parameter.default {
            Some(default) => format!("{}={default}", parameter.name),
            None => format!("{}=", parameter.name),
        });
        let parameters = parameters.collect::<Vec<_>>().join(" ");
        [query.package.clone(), query.name.clone(), parameters, query.title.clone()]
    });
    TextTable::of_text(["folder", "query", "parameters", "answers"], rows.collect()).whole(&[1, 2])
}
