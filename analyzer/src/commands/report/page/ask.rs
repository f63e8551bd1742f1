//! Asks the page's queries, and reads their rows.

use serde::de::DeserializeOwned;
use stallmap::session::Session;

use crate::commands::answer::{Answer, json_rows, rows};
use crate::commands::section::{self, Section};
use crate::exit::{Failure, Outcome, QUERY};
use crate::output::progress::Progress;

/// Asks a session, and says so.
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

    /// Says what is asked for.
    pub(super) fn say(&self, what: &str) {
        self.progress.say(format!("asking for {what}"));
    }

    /// The answer of a query of a folder in `sql/`.
    pub(super) async fn ask(
        &self,
        package: &str,
        name: &'static str,
        parameters: &[(&str, u64)],
    ) -> Outcome<Answer> {
        let section = section::sections(package, &[name]).into_iter().next();
        let section =
            section.ok_or_else(|| Failure::message(QUERY, format!("sql/{package}/{name}.sql is missing")))?;
        self.answer(section, parameters).await
    }

    /// The answer of a query.
    pub(super) async fn answer(&self, section: Section, parameters: &[(&str, u64)]) -> Outcome<Answer> {
        self.say(section.name);
        let sql = section.sql(parameters);
        let rows = rows(self.session, &sql).await?;
        Ok(Answer { section, sql, rows, absence: None })
    }
}

/// An answer's rows.
pub(super) fn read<R: DeserializeOwned>(answer: &Answer) -> Outcome<Vec<R>> {
    let name = answer.section.name;
    let wrong = |error| Failure::new(QUERY, anyhow::Error::from(error).context(format!("read `{name}`")));
    serde_json::from_slice(&json_rows(&answer.rows)?).map_err(wrong)
}
