//! Documentation of tables and views: for `info` and for the shell.

mod function;

use arrow::datatypes::DataType;
use stallmap::session::{Session, TableInfo};
use stallmap::tables::captured::TablePresence;

use stallmap_console::exit::{CommandFailure, Outcome, USAGE};
use stallmap_console::explain::explain;
use stallmap_console::names::{SessionNames, in_fleets, nearest};
use stallmap_console::output;
use stallmap_console::output::number::{bytes, grouped};
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::table::TextTable;

/// The tables of all captures with their sizes.
pub(crate) fn tables(session: &Session) -> TextTable {
    let rows = session.tables().into_iter().map(|table| {
        let without = |why: &str| ("-".to_owned(), why.to_owned());
        let (rows, size) = match table.presence {
            TablePresence::Missing => without("missing"),
            TablePresence::Unknown => without("not recorded"),
            // Tables computed on demand have no known size.
            TablePresence::Held if table.is_derived => without("computed on demand"),
            // The catalog of a fleet counts rows.
            TablePresence::Held if session.is_led() => (grouped(table.rows.into()), "-".to_owned()),
            TablePresence::Held => (grouped(table.rows.into()), bytes(table.size_bytes as f64)),
        };
        [table_name(session, &table), rows, size, first_sentence(&table.doc)]
    });
    TextTable::of_text(["table", "rows", "size", "a row is"], rows.collect()).numbers(&[1, 2])
}

/// The views of the library.
pub(crate) fn views(session: &Session) -> Outcome<TextTable> {
    let views = session.library().map_err(|error| explain(error, None))?;
    let rows = views.iter().map(|view| [view.package.clone(), view.name.clone(), first_sentence(&view.doc)]);
    Ok(TextTable::of_text(["package", "view", "a row is"], rows.collect()).whole(&[1]))
}

/// The columns of a table or view with their types.
pub(crate) async fn columns(session: &Session, name: &str) -> Outcome<TextTable> {
    let columns = typed_columns(session, name).await?;
    let rows = columns.into_iter().map(|(name, data_type)| [name, data_type]);
    Ok(TextTable::of_text(["column", "type"], rows.collect()).whole(&[0]))
}

/// Documentation of a table or view in addition to its columns' types.
struct DescribedRelation {
    kind: String,
    doc: String,
    columns: Vec<(String, String)>,
    /// A query that shows a view, and its definition.
    sql: Option<(String, String)>,
}

/// Everything about a table, view or function.
pub(crate) async fn document(session: &Session, name: &str) -> Outcome<String> {
    let plain = name.rsplit('.').next().unwrap_or(name);
    let columns = match typed_columns(session, name).await {
        Ok(columns) => columns,
        Err(failure) => return function::document(session, plain).ok_or(failure),
    };
    let described = describe(session, plain)?;
    let rows = columns.into_iter().map(|(name, data_type)| {
        let doc = described.columns.iter().find(|(column, _)| *column == name).map(|(_, doc)| doc.clone());
        [name, data_type, doc.unwrap_or_default()]
    });
    let table = TextTable::of_text(["column", "type", "meaning"], rows.collect()).whole(&[0, 1, 2]);
    let canvas = output::sheet();
    let heading = canvas.paint.text(TextRole::Heading, plain);
    let mut text = format!("{heading} ({})\n", described.kind).into_bytes();
    if !described.doc.is_empty() {
        text.extend(format!("{}\n", described.doc.trim_end()).bytes());
    }
    text.push(b'\n');
    output::written(table.draw(&mut text, output::TableCanvas { width: None, ..canvas }))?;
    if let Some((example, sql)) = described.sql {
        text.extend(format!("\nExample:\n{example};\n\n{}\n", sql.trim_end()).bytes());
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn describe(session: &Session, name: &str) -> Outcome<DescribedRelation> {
    let views = session.library().map_err(|error| explain(error, None))?;
    if let Some(view) = views.iter().find(|view| view.name == name) {
        let kind = match &view.file {
            Some(file) => format!("view of {}", output::path(file)),
            None => format!(
                "view of {}",
                view.source().with_file_name("").display().to_string().trim_end_matches('/')
            ),
        };
        let columns = view.columns.iter().map(|column| (column.name.clone(), column.doc.clone())).collect();
        let sql = Some((view.example(), view.sql.clone()));
        return Ok(DescribedRelation { kind, doc: view.doc.clone(), columns, sql });
    }
    let table = session.tables().into_iter().find(|table| table.name == name);
    let kind = table.as_ref().map_or_else(|| "created in this session".to_owned(), kind);
    let (doc, columns) = table.map_or_else(Default::default, |table| (table.doc, table.columns));
    let columns = columns.into_iter().map(|(name, _, doc)| (name, doc)).collect();
    Ok(DescribedRelation { kind, doc, columns, sql: None })
}

fn kind(table: &TableInfo) -> String {
    match table.presence {
        TablePresence::Missing => "table, missing".to_owned(),
        TablePresence::Unknown => "table, not recorded: a release before this table wrote it".to_owned(),
        TablePresence::Held if table.is_derived => "table, computed on demand".to_owned(),
        TablePresence::Held => format!("table, rows: {}", grouped(table.rows.into())),
    }
}

/// Names and types, from the engine, which includes views created in the session.
async fn typed_columns(session: &Session, name: &str) -> Outcome<Vec<(String, String)>> {
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !name.split('.').all(is_name) {
        return Err(CommandFailure::message(USAGE, format!("`{name}` is not a table or view")));
    }
    let frame =
        session.sql(&format!("SELECT * FROM {name}")).await.map_err(|error| unknown(error, name, session))?;
    let fields = frame.schema().fields().iter();
    Ok(fields.map(|field| (field.name().clone(), type_name(field.data_type()))).collect())
}

fn unknown(error: stallmap::error::AnalyzeError, name: &str, session: &Session) -> CommandFailure {
    let names = SessionNames::from_session(session).unwrap_or_default();
    let plain = name.rsplit('.').next().unwrap_or(name);
    if names.relations().any(|relation| relation == plain) {
        return explain(error, Some(session));
    }
    let known = names.relations().chain(names.functions.iter().map(String::as_str));
    let near = in_fleets(plain).or_else(|| Some(format!("did you mean `{}`?", nearest(plain, known)?)));
    let hint = near.unwrap_or_else(|| {
        "`.tables` and `.views` list names in the shell, `stallmap info NAME.stallmap --views` outside of it".to_owned()
    });
    CommandFailure::message(USAGE, format!("no table or view `{name}`")).hint(hint)
}

/// A type as displayed: dictionaries are the text that they hold.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Dictionary(_, value) => type_name(value),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "text".to_owned(),
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary => "bytes".to_owned(),
        DataType::List(item) | DataType::LargeList(item) => {
            format!("list of {}", type_name(item.data_type()))
        }
        other => other.to_string().to_lowercase(),
    }
}

fn table_name(session: &Session, table: &TableInfo) -> String {
    let is_alone = session.captures().len() == 1;
    if is_alone { table.name.clone() } else { format!("{}.{}", table.capture, table.name) }
}

/// The first sentence of a doc, without its full stop.
fn first_sentence(doc: &str) -> String {
    let line = doc.split("\n\n").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.find(". ").unwrap_or_else(|| line.trim_end_matches('.').len());
    line[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::first_sentence;

    #[test]
    fn a_doc_begins_with_a_sentence() {
        assert_eq!(first_sentence("One launch.\n\nMore."), "One launch");
        assert_eq!(first_sentence("One launch\nof many. More."), "One launch of many");
        assert_eq!(first_sentence(""), "");
    }
}
