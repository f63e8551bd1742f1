//! Runs the page's queries, and reads their rows.

use stallmap::session::Session;

use stallmap::library::queries::Query;
use stallmap_console::answer::{Answer, asked};
use stallmap_console::exit::Outcome;
use stallmap_console::output::progress::Progress;
use stallmap_console::row::Row;

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

    /// The result of a query.
    pub(super) async fn ask(&self, section: Query, parameters: &[(&str, u64)]) -> Outcome<Answer> {
        self.run(section, section.sql(parameters)).await
    }

    /// The answer of a query about these tensors.
    pub(super) async fn of_tensors(&self, section: Query, tensors: &[u64]) -> Outcome<Answer> {
        let tensors: Vec<String> = tensors.iter().map(u64::to_string).collect();
        self.run(section, section.sql(&[]).replace("$tensors", &tensors.join(", "))).await
    }

    async fn run(&self, section: Query, sql: String) -> Outcome<Answer> {
        self.say(section.name);
        let rows = asked(self.session, section, &sql).await?;
        Ok(Answer { section, sql, rows, absence: None })
    }
}

/// A result's rows.
pub(super) fn read<R: Row>(answer: &Answer) -> Outcome<Vec<R>> {
    R::read(answer.section.name, &answer.rows)
}
