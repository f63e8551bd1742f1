//! Runs the page's queries, and reads their rows.

use stallmap::session::Session;

use stallmap::library::queries::CommandQuery;
use stallmap_console::answer::{SectionAnswer, asked, rows_of_all};
use stallmap_console::exit::Outcome;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::row::QueryRow;

/// Queries a session, with progress.
pub(super) struct SessionAsker<'a> {
    session: &'a Session,
    progress: ProgressSpinner,
    /// Answers that wait for their question.
    known: Vec<SectionAnswer>,
}

impl<'a> SessionAsker<'a> {
    /// An asker of this session.
    pub(super) fn for_session(session: &'a Session) -> Self {
        Self { session, progress: ProgressSpinner::for_work(session.work(), "asking"), known: Vec::new() }
    }

    /// The session.
    pub(super) fn session(&self) -> &'a Session {
        self.session
    }

    /// Shows the current query as progress.
    pub(super) fn say(&self, what: &str) {
        self.progress.say(format!("querying {what}"));
    }

    /// Asks queries at the same time. Their answers wait for [`SessionAsker::ask`].
    pub(super) async fn ask_ahead(&mut self, texts: Vec<(CommandQuery, String)>) -> Outcome<()> {
        let answers = self.all(texts).await?;
        self.known.extend(answers);
        Ok(())
    }

    /// The results of queries that are asked at the same time.
    pub(super) async fn all(&self, texts: Vec<(CommandQuery, String)>) -> Outcome<Vec<SectionAnswer>> {
        let rows = rows_of_all(self.session, &texts).await?;
        let answers = texts.into_iter().zip(rows);
        Ok(answers
            .map(|((section, sql), rows)| SectionAnswer { section, sql, rows, absence: None })
            .collect())
    }

    /// The result of a query.
    pub(super) async fn ask(
        &self,
        section: CommandQuery,
        parameters: &[(&str, u64)],
    ) -> Outcome<SectionAnswer> {
        self.run(section, section.sql(parameters)).await
    }

    /// The answer of a query about these tensors.
    pub(super) async fn of_tensors(&self, section: CommandQuery, tensors: &[u64]) -> Outcome<SectionAnswer> {
        self.run(section, sql_of_tensors(section, tensors)).await
    }

    async fn run(&self, section: CommandQuery, sql: String) -> Outcome<SectionAnswer> {
        if let Some(answer) = self.known.iter().find(|known| known.section == section && known.sql == sql) {
            return Ok(answer.clone());
        }
        self.say(section.name);
        let rows = asked(self.session, section, &sql).await?;
        Ok(SectionAnswer { section, sql, rows, absence: None })
    }
}

/// The statement of a query about these tensors.
pub(super) fn sql_of_tensors(section: CommandQuery, tensors: &[u64]) -> String {
    let tensors: Vec<String> = tensors.iter().map(u64::to_string).collect();
    section.sql(&[]).replace("$tensors", &tensors.join(", "))
}

/// A result's rows.
pub(super) fn read<R: QueryRow>(answer: &SectionAnswer) -> Outcome<Vec<R>> {
    R::read(answer.section.name, &answer.rows)
}
