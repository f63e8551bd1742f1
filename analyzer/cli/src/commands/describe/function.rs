//! Documentation of functions: stallmap's, and those of the engine.

use datafusion::logical_expr::Documentation;
use stallmap::session::Session;

use stallmap_console::output;
use stallmap_console::output::paint::TextRole;

/// Documentation of a function. None if there is no function of this name.
pub(super) fn document(session: &Session, name: &str) -> Option<String> {
    let state = session.context().state();
    let (kind, doc) = if let Some(function) = state.scalar_functions().get(name) {
        ("scalar function", function.documentation().cloned())
    } else if let Some(function) = state.aggregate_functions().get(name) {
        ("aggregate function", function.documentation().cloned())
    } else {
        let function = state.window_functions().get(name)?;
        ("window function", function.documentation().cloned())
    };
    let heading = output::sheet().paint.text(TextRole::Heading, name);
    Some(format!("{heading} ({kind})\n{}", doc.map_or_else(|| "not documented\n".to_owned(), text)))
}

fn text(doc: Documentation) -> String {
    let mut text = format!("{}\n\n{}\n", doc.description.trim(), doc.syntax_example.trim());
    for (name, meaning) in doc.arguments.unwrap_or_default() {
        text.extend(["  ", name.as_str(), ": ", meaning.trim(), "\n"]);
    }
    if let Some(example) = doc.sql_example {
        text.extend(["\nExample:\n", example.trim(), "\n"]);
    }
    text
}
