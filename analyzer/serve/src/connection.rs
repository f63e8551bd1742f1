//! A client that gave the password: its statements, simple and prepared, one after the other.

mod extended;
mod held;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use stallmap::statements;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::failure::CodedFailure;
use crate::message::{ClientMessage, ServerMessage, ValueFormat};
use crate::query::{QueryEnd, QueryFault, RunningQuery, columns, planned, send_columns};
use crate::server::PostgresListener;
use crate::statement::{StatementAction, StatementEffect, action};
use crate::wire::ClientWire;
use extended::{BoundPortal, PreparedQuery};

/// Time to write the reason why a query ended.
const FAREWELL: Duration = Duration::from_secs(10);

/// The state of a transaction. Nothing can change, but drivers ask for it.
#[derive(Clone, Copy, PartialEq)]
enum TransactionState {
    Idle = b'I' as isize,
    Open = b'T' as isize,
    /// After an error, until the transaction ends.
    Failed = b'E' as isize,
}

/// One client's session.
pub(crate) struct PostgresConnection {
    server: Arc<PostgresListener>,
    wire: ClientWire,
    cancelled: watch::Receiver<u64>,
    block: TransactionState,
    /// A shorter time for queries than the server's.
    timeout: Option<Duration>,
    statements: HashMap<String, Arc<PreparedQuery>>,
    portals: HashMap<String, BoundPortal>,
    /// True after an error within prepared statements: messages are skipped until the client synchronizes.
    is_skipping: bool,
}

impl PostgresConnection {
    pub(crate) fn new(
        server: Arc<PostgresListener>,
        wire: ClientWire,
        cancelled: watch::Receiver<u64>,
    ) -> Self {
        let (statements, portals) = (HashMap::new(), HashMap::new());
        let (block, timeout, is_skipping) = (TransactionState::Idle, None, false);
        Self { server, wire, cancelled, block, timeout, statements, portals, is_skipping }
    }

    /// Serves messages until the client leaves.
    pub(crate) async fn serve(mut self) -> io::Result<()> {
        self.ready();
        self.wire.flush().await?;
        while let Some((kind, body)) = self.wire.message().await? {
            let Ok(request) = ClientMessage::read(kind, body) else {
                CodedFailure::protocol("a message cannot be read").send(&mut self.wire, true);
                return self.wire.flush().await;
            };
            if matches!(request, ClientMessage::Terminate) {
                return Ok(());
            }
            match self.handle(request).await {
                Ok(()) => {}
                Err(QueryFault::Refused(refusal)) => {
                    self.failed(&refusal);
                    timeout(FAREWELL, self.wire.flush()).await??;
                }
                Err(QueryFault::Gone(error)) => return Err(error),
            }
        }
        Ok(())
    }

    async fn handle(&mut self, request: ClientMessage) -> Result<(), QueryFault> {
        match request {
            ClientMessage::Sync => {
                self.is_skipping = false;
                if self.block == TransactionState::Idle {
                    self.portals.clear();
                }
                self.ready();
                Ok(self.wire.flush().await?)
            }
            _ if self.is_skipping => Ok(()),
            ClientMessage::Flush => Ok(self.wire.flush().await?),
            ClientMessage::Query(text) => match self.simple(&text).await {
                Ok(()) => {
                    self.ready();
                    Ok(self.wire.flush().await?)
                }
                Err(QueryFault::Refused(refusal)) => {
                    self.failed(&refusal);
                    self.ready();
                    Ok(timeout(FAREWELL, self.wire.flush()).await.map_err(io::Error::from)??)
                }
                Err(gone) => Err(gone),
            },
            request => {
                self.is_skipping = true;
                self.prepared(request).await?;
                self.is_skipping = false;
                Ok(())
            }
        }
    }

    /// Sends the state of the transaction.
    fn ready(&mut self) {
        self.wire.send(&ServerMessage::Ready(self.block as u8));
    }

    fn failed(&mut self, refusal: &CodedFailure) {
        refusal.send(&mut self.wire, false);
        if self.block == TransactionState::Open {
            self.block = TransactionState::Failed;
        }
        if self.block == TransactionState::Idle {
            self.portals.clear();
        }
    }

    fn limit(&self) -> QueryEnd {
        let longest = self.server.longest;
        QueryEnd::new(self.timeout.map_or(longest, |own| own.min(longest)), &self.cancelled)
    }

    /// Answers statements in a text.
    async fn simple(&mut self, text: &str) -> Result<(), QueryFault> {
        let statements = statements::split(text);
        if statements.is_empty() {
            self.wire.send(&ServerMessage::Empty);
        }
        for sql in statements {
            match self.admitted(sql)? {
                StatementAction::Empty => self.wire.send(&ServerMessage::Empty),
                StatementAction::Done(tag, effect) => self.done(tag, &effect),
                StatementAction::Rows(sql) => self.rows(&sql).await?,
            }
        }
        Ok(())
    }

    /// The action of a statement, if the transaction is not waiting for its end.
    fn admitted(&self, sql: &str) -> Result<StatementAction, CodedFailure> {
        let action = action(sql)?;
        if self.block == TransactionState::Failed
            && !matches!(
                action,
                StatementAction::Done(_, StatementEffect::End | StatementEffect::Back)
                    | StatementAction::Empty
            )
        {
            let message = "the transaction failed, and this statement is ignored";
            return Err(CodedFailure::message("25P02", message, "end it with ROLLBACK"));
        }
        Ok(action)
    }

    /// The effect of a statement without rows.
    fn done(&mut self, tag: &'static str, effect: &StatementEffect) {
        let tag = if self.block == TransactionState::Failed && tag == "COMMIT" { "ROLLBACK" } else { tag };
        match effect {
            StatementEffect::Begin => self.block = TransactionState::Open,
            StatementEffect::End => {
                self.block = TransactionState::Idle;
                self.portals.clear();
            }
            StatementEffect::Back if self.block == TransactionState::Failed => {
                self.block = TransactionState::Open;
            }
            StatementEffect::None | StatementEffect::Back => {}
            StatementEffect::Forget(Some(name)) => drop(self.statements.remove(name)),
            StatementEffect::Forget(None) => self.statements.clear(),
            StatementEffect::Timeout(time) => self.timeout = *time,
        }
        self.wire.send(&ServerMessage::Done(tag.into()));
    }

    /// Sends rows of one statement.
    async fn rows(&mut self, sql: &str) -> Result<(), QueryFault> {
        let mut limit = self.limit();
        let session = &self.server.session;
        let plan = planned(&self.server, sql, &mut self.wire, &mut limit).await?;
        let columns = columns(&plan);
        let types = columns.iter().map(|(_, column)| (*column, ValueFormat::Text)).collect();
        let mut rows = RunningQuery::start(&self.server, sql, plan, types);
        send_columns(&mut self.wire, &columns, |_| ValueFormat::Text);
        rows.send(session, 0, &mut self.wire, &mut limit).await?;
        self.wire.send(&ServerMessage::Done(format!("SELECT {}", rows.count).into()));
        Ok(())
    }
}
