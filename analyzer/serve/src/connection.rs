//! A client that gave the password: its statements, simple and prepared, one after the other.

mod extended;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use stallmap::statements;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::failure::Refusal;
use crate::message::{Format, Reply, Request};
use crate::query::{Fault, Limit, Rows, columns, planned, send_columns};
use crate::server::Server;
use crate::statement::{Action, Effect, action};
use crate::wire::Wire;
use extended::{Portal, Prepared};

/// Time to write the reason why a query ended.
const FAREWELL: Duration = Duration::from_secs(10);

/// The state of a transaction. Nothing can change, but drivers ask for it.
#[derive(Clone, Copy, PartialEq)]
enum Block {
    Idle = b'I' as isize,
    Open = b'T' as isize,
    /// After an error, until the transaction ends.
    Failed = b'E' as isize,
}

/// One client's session.
pub(crate) struct Connection {
    server: Arc<Server>,
    wire: Wire,
    cancelled: watch::Receiver<u64>,
    block: Block,
    /// A shorter time for queries than the server's.
    timeout: Option<Duration>,
    statements: HashMap<String, Arc<Prepared>>,
    portals: HashMap<String, Portal>,
    /// True after an error within prepared statements: messages are skipped until the client synchronizes.
    is_skipping: bool,
}

impl Connection {
    pub(crate) fn new(server: Arc<Server>, wire: Wire, cancelled: watch::Receiver<u64>) -> Self {
        let (statements, portals) = (HashMap::new(), HashMap::new());
        let (block, timeout, is_skipping) = (Block::Idle, None, false);
        Self { server, wire, cancelled, block, timeout, statements, portals, is_skipping }
    }

    /// Serves messages until the client leaves.
    pub(crate) async fn serve(mut self) -> io::Result<()> {
        self.ready();
        self.wire.flush().await?;
        while let Some((kind, body)) = self.wire.message().await? {
            let Ok(request) = Request::read(kind, body) else {
                Refusal::protocol("a message cannot be read").send(&mut self.wire, true);
                return self.wire.flush().await;
            };
            if matches!(request, Request::Terminate) {
                return Ok(());
            }
            match self.handle(request).await {
                Ok(()) => {}
                Err(Fault::Refused(refusal)) => {
                    self.failed(&refusal);
                    timeout(FAREWELL, self.wire.flush()).await??;
                }
                Err(Fault::Gone(error)) => return Err(error),
            }
        }
        Ok(())
    }

    async fn handle(&mut self, request: Request) -> Result<(), Fault> {
        match request {
            Request::Sync => {
                self.is_skipping = false;
                if self.block == Block::Idle {
                    self.portals.clear();
                }
                self.ready();
                Ok(self.wire.flush().await?)
            }
            _ if self.is_skipping => Ok(()),
            Request::Flush => Ok(self.wire.flush().await?),
            Request::Query(text) => match self.simple(&text).await {
                Ok(()) => {
                    self.ready();
                    Ok(self.wire.flush().await?)
                }
                Err(Fault::Refused(refusal)) => {
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
        self.wire.send(&Reply::Ready(self.block as u8));
    }

    fn failed(&mut self, refusal: &Refusal) {
        refusal.send(&mut self.wire, false);
        if self.block == Block::Open {
            self.block = Block::Failed;
        }
        if self.block == Block::Idle {
            self.portals.clear();
        }
    }

    fn limit(&self) -> Limit {
        let longest = self.server.longest;
        Limit::new(self.timeout.map_or(longest, |own| own.min(longest)), &self.cancelled)
    }

    /// Answers statements in a text.
    async fn simple(&mut self, text: &str) -> Result<(), Fault> {
        let statements = statements::split(text);
        if statements.is_empty() {
            self.wire.send(&Reply::Empty);
        }
        for sql in statements {
            match self.admitted(sql)? {
                Action::Empty => self.wire.send(&Reply::Empty),
                Action::Done(tag, effect) => self.done(tag, &effect),
                Action::Rows(sql) => self.rows(&sql).await?,
            }
        }
        Ok(())
    }

    /// The action of a statement, if the transaction is not waiting for its end.
    fn admitted(&self, sql: &str) -> Result<Action, Refusal> {
        let action = action(sql)?;
        if self.block == Block::Failed
            && !matches!(action, Action::Done(_, Effect::End | Effect::Back) | Action::Empty)
        {
            let message = "the transaction failed, and this statement is ignored";
            return Err(Refusal::message("25P02", message, "end it with ROLLBACK"));
        }
        Ok(action)
    }

    /// The effect of a statement without rows.
    fn done(&mut self, tag: &'static str, effect: &Effect) {
        let tag = if self.block == Block::Failed && tag == "COMMIT" { "ROLLBACK" } else { tag };
        match effect {
            Effect::Begin => self.block = Block::Open,
            Effect::End => {
                self.block = Block::Idle;
                self.portals.clear();
            }
            Effect::Back if self.block == Block::Failed => self.block = Block::Open,
            Effect::None | Effect::Back => {}
            Effect::Forget(Some(name)) => drop(self.statements.remove(name)),
            Effect::Forget(None) => self.statements.clear(),
            Effect::Timeout(time) => self.timeout = *time,
        }
        self.wire.send(&Reply::Done(tag.into()));
    }

    /// Sends rows of one statement.
    async fn rows(&mut self, sql: &str) -> Result<(), Fault> {
        let mut limit = self.limit();
        let session = &self.server.session;
        let plan = planned(&self.server, sql, &mut self.wire, &mut limit).await?;
        let columns = columns(&plan);
        let types = columns.iter().map(|(_, column)| (*column, Format::Text)).collect();
        let mut rows = Rows::start(&self.server, sql, plan, types);
        send_columns(&mut self.wire, &columns, |_| Format::Text);
        rows.send(session, 0, &mut self.wire, &mut limit).await?;
        self.wire.send(&Reply::Done(format!("SELECT {}", rows.count).into()));
        Ok(())
    }
}
