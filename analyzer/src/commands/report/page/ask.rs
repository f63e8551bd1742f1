//! Runs the page's queries, and reads their rows.

use serde::de::DeserializeOwned;
use stallmap::session::Session;

use crate::commands::answer::{Answer, json_rows, rows};
use crate::commands::section::{self, Section};
use crate::exit::{Failure, Outcome, QUERY};
use crate::output::progress::Progress;

/// Queries a session, with progress.
pub(super) struct Asker<'a> {
    session: &'a Session,
    progress: Progress,
}

impl<'a> Asker<'a> {
    /// An asker of this session.
    pub(super) fn of(session: &'a Session) -> Self {
        Self { session, progress: Progress::start("asking") }
    }

    /// The session.
    pub(super) fn session(&self) -> &'a Session {
        self.session
    }

    /// Shows the current query as progress.
    pub(super) fn say(&self, what: &str) {
        self.progress.say(format!("querying {what}"));
    }

    /// The result of a query of a folder in `sql/`.
    pub(super) async fn ask(
        &self,
        package: &str,
        name: &'static str,
        parameters: &[(&str, u64)],
    ) -> Outcome<Answer> {
        self.answer(found(package, name)?, parameters).await
    }

    /// The result of a query.
    pub(super) async fn answer(&self, section: Section, parameters: &[(&str, u64)]) -> Outcome<Answer> {
        self.run(section, section.sql(parameters)).await
    }

    /// The result of a query of a folder in `sql/` about these tensors.
    pub(super) async fn of_tensors(
        &self,
        package: &str,
        name: &'static str,
        tensors: &[u64],
    ) -> Outcome<Answer> {
        let tensors: Vec<String> = tensors.iter().map(u64::to_string).collect();
        let section = found(package, name)?;
        self.run(section, section.sql(&[]).replace("$tensors", &tensors.join(", "))).await
    }

    async fn run(&self, section: Section, sql: String) -> Outcome<Answer> {
        self.say(section.name);
        let rows = rows(self.session, &sql).await?;
        Ok(Answer { section, sql, rows, absence: None })
    }
}

/// A query of a folder in `sql/`.
fn found(package: &str, name: &'static str) -> Outcome<Section> {
    let section = section::sections(package, &[name]).into_iter().next();
    section.ok_or_else(|| Failure::message(QUERY, format!("sql/{package}/{name}.sql is missing")))
}

/// A result's rows.
pub(super) fn read<R: DeserializeOwned>(answer: &Answer) -> Outcome<Vec<R>> {
    let name = answer.section.name;
    let wrong = |error| Failure::new(QUERY, anyhow::Error::from(error).context(format!("read `{name}`")));
    serde_json::from_slice(&json_rows(&answer.rows)?).map_err(wrong)
}
