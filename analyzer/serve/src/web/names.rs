//! Views, tables and examples with their descriptions, for the box for SQL.

use serde_json::{Value, json};
use stallmap::library::{QueryRecipe, cookbook};
use stallmap::session::Session;
use stallmap_console::explain::explain;
use tonic::codegen::http::StatusCode;

use super::hall::ServedCaptures;
use super::reply::WebReply;

/// The names by kind: examples of the cookbook, views, tables.
pub(crate) fn reply(hall: &ServedCaptures, session: &Session) -> WebReply {
    let views = match session.library() {
        Ok(views) => views,
        Err(error) => {
            return WebReply::failure(StatusCode::INTERNAL_SERVER_ERROR, &explain(error, Some(session)));
        }
    };
    let views = views.iter().map(|view| {
        let columns: Vec<Value> =
            view.columns.iter().map(|column| json!([column.name, column.doc])).collect();
        json!({ "name": view.name, "doc": view.doc, "sql": view.example(), "columns": columns })
    });
    let tables = session.tables().into_iter().map(|table| {
        let columns: Vec<Value> =
            table.columns.iter().map(|(name, kind, doc)| json!([name, format!("{kind}. {doc}")])).collect();
        let sql = format!("SELECT * FROM {} LIMIT 10", table.name);
        json!({ "name": table.name, "doc": table.doc, "sql": sql, "columns": columns })
    });
    // An example of several captures has its own names for them.
    let is_possible =
        |recipe: &QueryRecipe| recipe.needs().into_iter().all(|name| hall.capture(name).is_some());
    let examples = cookbook().filter(is_possible).map(|recipe| {
        let doc = [recipe.question()].into_iter().chain(recipe.doc()).collect::<Vec<_>>().join(" ");
        json!({ "name": recipe.name(), "doc": doc, "sql": recipe.sql(), "columns": [] })
    });
    let kinds = [
        json!({ "title": "Examples", "entries": examples.collect::<Vec<_>>() }),
        json!({ "title": "Views", "entries": views.collect::<Vec<_>>() }),
        json!({ "title": "Tables", "entries": tables.collect::<Vec<_>>() }),
    ];
    WebReply::json(StatusCode::OK, &json!(kinds))
}
