//! The user's own library: which folder it is, and its saved queries.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use stallmap::library::user::UserLibrary;
use stallmap::session::Session;

use super::explain;
use super::names::nearest;
use crate::exit::{Failure, Outcome, USAGE};
use crate::output::table::Table;

/// Names the folder if no option does.
const VARIABLE: &str = "STALLMAP_LIBRARY";

/// The folder of this process.
static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Sets the folder of the command line, or else that of the environment. The first call decides.
pub(super) fn choose(option: Option<&Path>) {
    let of_environment = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    FOLDER.get_or_init(|| option.map(Path::to_owned).or_else(of_environment));
}

/// The user's library, if one was named.
pub(super) fn library() -> Outcome<Option<UserLibrary>> {
    let Some(folder) = FOLDER.get().and_then(Option::as_deref) else { return Ok(None) };
    UserLibrary::read(folder).map(Some).map_err(|error| explain(error, None))
}

/// Adds the user's library to a session, if one was named.
pub(super) fn extend(session: &mut Session) -> Outcome<()> {
    match library()? {
        Some(library) => session.extend(&library).map_err(|error| explain(error, None)),
        None => Ok(()),
    }
}

/// A saved query with values for its parameters.
pub(crate) fn saved_query(session: &Session, name: &str, values: &[(String, String)]) -> Outcome<String> {
    let names = || session.queries().iter().map(|query| query.name.as_str());
    let Some(query) = session.queries().iter().find(|query| query.name == name) else {
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if session.queries().is_empty() => {
                format!("name a folder of .sql files with --library DIR, or set {VARIABLE}")
            }
            None => format!("saved queries: {}", names().collect::<Vec<_>>().join(", ")),
        };
        return Err(Failure::message(USAGE, format!("no saved query `{name}`")).hint(hint));
    };
    query.filled(values).map_err(|error| {
        let text = error.to_string();
        let (message, hint) = text.split_once("; hint: ").unwrap_or((&text, ""));
        Failure::message(USAGE, message).hint((!hint.is_empty()).then(|| hint.to_owned()))
    })
}

/// The saved queries with titles and parameters.
pub(crate) fn saved_queries(session: &Session) -> Table {
    let rows = session.queries().iter().map(|query| {
        let parameters = query.parameters.iter().map(|parameter| match &parameter.default {
            Some(default) => format!("{}={default}", parameter.name),
            None => format!("{}=", parameter.name),
        });
        let parameters = parameters.collect::<Vec<_>>().join(" ");
        [query.package.clone(), query.name.clone(), parameters, query.title.clone()]
    });
    Table::of_text(["folder", "query", "parameters", "answers"], rows.collect()).whole(&[1, 2])
}
