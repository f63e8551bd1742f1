//! Runs the page's queries, and reads their rows.

use stallmap::session::Session;

use stallmap::library::queries::Query;
use stallmap_console::answer::{Answer, asked, rows_of_all};
use stallmap_console::exit::Outcome;
use stallmap_console::output::progress::Progress;
use stallmap_console::row::Row;

/// Queries a session, with progress.
pub(super) struct Asker<'a> {
    session: &'a Session,
    progress: Progress,
    /// Answers that wait for their question.
    known: Vec<Answer>,
}

impl<'a> Asker<'a> {
    /// An asker of this session.
    pub(super) fn of(session: &'a Session) -> Self {
        Self { session, progress: Progress::of(session.work(), "asking"), known: Vec::new() }
    }

    /// The session.
    pub(super) fn session(&self) -> &'a Session {
        self.session
    }

    /// Shows the current query as progress.
    pub(super) fn say(&self, what: &str) {
        self.progress.say(format!("querying {what}"));
    }

    /// Asks queries at the same time. Their answers wait for [`Asker::ask`].
    pub(super) async fn ask_ahead(&mut self, texts: Vec<(Query, String)>) -> Outcome<()> {
        let answers = self.all(texts).await?;
        self.known.extend(answers);
        Ok(())
    }

    /// The results of queries that are asked at the same time.
    pub(super) async fn all(&self, texts: Vec<(Query, String)>) -> Outcome<Vec<Answer>> {
        let rows = rows_of_all(self.session, &texts).await?;
        let answers = texts.into_iter().zip(rows);
        Ok(answers.map(|((section, sql), rows)| Answer { section, sql, rows, absence: None }).collect())
    }

    /// The result of a query.
    pub(super) async fn ask(&self, section: Query, parameters: &[(&str, u64)]) -> Outcome<Answer> {
        self.run(section, section.sql(parameters)).await
    }

    /// The answer of a query about these tensors.
    pub(super) async fn of_tensors(&self, section: Query, tensors: &[u64]) -> Outcome<Answer> {
        self.run(section, sql_of_tensors(section, tensors)).await
    }

    async fn run(&self, section: Query, sql: String) -> Outcome<Answer> {
        if let Some(answer) = self.known.iter().find(|known| known.section == section && known.sql == sql) {
            return Ok(answer.clone());
        }
        self.say(section.name);
        let rows = asked(self.session, section, &sql).await?;
        Ok(Answer { section, sql, rows, absence: None })
    }
}

/// The statement of a query about these tensors.
pub(super) fn sql_of_tensors(section: Query, tensors: &[u64]) -> String {
    let tensors: Vec<String> = tensors.iter().map(u64::to_string).collect();
    section.sql(&[]).replace("$tensors", &tensors.join(", "))
}

/// A result's rows.
pub(super) fn read<R: Row>(answer: &Answer) -> Outcome<Vec<R>> {
    R::read(answer.section.name, &answer.rows)
}
