//! The SQL library: one file a view, embedded when the program is built.
//!
//! Adding a view touches no Rust: `sql/<package>/<view>.sql` holds one `CREATE VIEW <view> (columns) AS SELECT ...`,
//! with a comment above it and above each column that `sql/columns.sql` lacks. A view is planned on first use, and so are
//! the views that it reads.

pub mod doc;
pub mod fault;
mod folder;
mod order;
pub mod queries;
pub mod query;
pub mod user;

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::error::AnalyzeError;

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// The package of views over all captures of a fleet, and the schema that has them.
pub const FLEET: &str = "fleet";

/// A view of the library, from its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDoc {
    /// Name in SQL.
    pub name: String,
    /// The folder in `sql/`, or in the user's library.
    pub package: String,
    /// Description of one row, and its computation.
    pub doc: String,
    /// An example query, if its header has one.
    pub example: Option<String>,
    /// Each column with its meaning, in order.
    pub columns: Vec<ColumnDoc>,
    /// The file's text: one CREATE VIEW.
    pub sql: String,
    /// The file in the user's library. None for built-in views.
    pub file: Option<PathBuf>,
}

impl ViewDoc {
    /// The file that declares it: the user's, or one of the repository.
    pub fn source(&self) -> PathBuf {
        let Self { package, name, .. } = self;
        self.file.clone().unwrap_or_else(|| match package.as_str() {
            FLEET => format!("sql/fleet/{name}.sql").into(),
            package => format!("sql/views/{package}/{name}.sql").into(),
        })
    }

    /// An example query: its own, or one that lists rows, the costliest first if it has costs.
    pub fn example(&self) -> String {
        let has = |name: &str| self.columns.iter().any(|column| column.name == name);
        let order = ["samples", "saving_samples", "position"].into_iter().find(|name| has(name));
        let order = order.map(|name| match name {
            "position" => " ORDER BY position".to_owned(),
            name => format!(" ORDER BY {name} DESC"),
        });
        self.example
            .clone()
            .unwrap_or_else(|| format!("SELECT * FROM {}{} LIMIT 10", self.name, order.unwrap_or_default()))
    }
}

/// A column of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDoc {
    /// Name in SQL.
    pub name: String,
    /// Its meaning.
    pub doc: String,
}

/// Every view, sorted by package and name.
pub fn views() -> Result<&'static [ViewDoc], AnalyzeError> {
    static PARSED: ParsedViews = OnceLock::new();
    parsed(&PARSED, VIEWS)
}

/// The views over all captures of a fleet, by name. No session of a capture has them.
pub fn fleet_views() -> Result<&'static [ViewDoc], AnalyzeError> {
    static PARSED: ParsedViews = OnceLock::new();
    parsed(&PARSED, FLEET_VIEWS)
}

/// Views, once they are parsed, or the name of the first wrong one with the reason.
type ParsedViews = OnceLock<Result<Vec<ViewDoc>, (String, String)>>;

fn parsed(
    views: &'static ParsedViews,
    files: &[(&str, &str, &str)],
) -> Result<&'static [ViewDoc], AnalyzeError> {
    let parse = |&(package, name, text): &(&str, &str, &str)| {
        doc::parse(package, name, text).map_err(|flaw| (name.to_owned(), flaw.message))
    };
    match views.get_or_init(|| files.iter().map(parse).collect()) {
        Ok(views) => Ok(views),
        Err((view, reason)) => Err(AnalyzeError::View { view: view.clone(), reason: reason.clone() }),
    }
}

/// The statements whose views are worth storing: those of commands that read views whole, and of a fleet's views.
pub(crate) fn whole_statements() -> Result<Vec<&'static str>, AnalyzeError> {
    let queries = queries::ALL.iter().filter(|(_, query)| query.is_whole()).map(|(_, query)| query.text());
    Ok(queries.chain(fleet_views()?.iter().map(|view| view.sql.as_str())).collect())
}

/// A question and the query for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryRecipe {
    /// Its number in the cookbook, from 1.
    pub number: usize,
    file: &'static str,
    text: &'static str,
}

/// The questions of the cookbook, in order.
pub fn cookbook() -> impl Iterator<Item = QueryRecipe> {
    (1..).zip(RECIPES).map(|(number, &(_, file, text))| QueryRecipe { number, file, text })
}

impl QueryRecipe {
    /// Its name: the file's, without the number before it.
    pub fn name(&self) -> &'static str {
        self.file.trim_start_matches(|char: char| char.is_ascii_digit()).trim_start_matches('_')
    }

    /// The question: the first line of the file's comment.
    pub fn question(&self) -> &'static str {
        self.comment().next().unwrap_or(self.file)
    }

    /// Explanation of the result: the other lines.
    pub fn doc(&self) -> impl Iterator<Item = &'static str> {
        self.comment().skip(1).filter(|line| !line.starts_with("Capture: "))
    }

    /// The bundled capture for the cookbook's result.
    pub fn capture(&self) -> Option<&'static str> {
        self.comment().find_map(|line| line.strip_prefix("Capture: "))
    }

    /// The capture names that it needs, if there are several.
    pub fn needs(&self) -> Vec<&'static str> {
        let captures = self.capture().unwrap_or_default().split(' ');
        captures.filter_map(|capture| capture.split_once('=').map(|(name, _)| name)).collect()
    }

    /// The query.
    pub fn sql(&self) -> &'static str {
        let comment = self.text.split_inclusive('\n').take_while(|line| line.starts_with("--"));
        let length: usize = comment.map(str::len).sum();
        self.text.get(length..).unwrap_or_default().trim().trim_end_matches(';')
    }

    fn comment(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.text.lines().map_while(|line| line.strip_prefix("--")).map(str::trim)
    }
}
