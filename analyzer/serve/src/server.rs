//! Connections: their number, their logins, and cancelled queries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stallmap::session::Session;
use stallmap_console::exit::Outcome;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::catalog::SessionCatalog;
use crate::connection::PostgresConnection;
use crate::failure::CodedFailure;
use crate::login::{self, KnownClient};
use crate::message::ServerMessage;
use crate::scram::ScramVerifier;
use crate::secret::random;
use crate::settings::ServeSettings;
use crate::statement::SETTINGS;
use crate::unknown::{PasswordGuesses, UnknownClients};
use crate::wire::ClientWire;

/// Time to give the password.
const LONGEST_LOGIN: Duration = Duration::from_secs(10);
/// Pause after the system has no connection to give.
const PAUSE: Duration = Duration::from_millis(100);

/// The state that connections share.
pub(crate) struct PostgresListener {
    pub(crate) session: Session,
    /// Threads for queries.
    pub(crate) queries: Handle,
    pub(crate) catalog: SessionCatalog,
    pub(crate) verifier: ScramVerifier,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) must_encrypt: bool,
    /// Time of a query.
    pub(crate) longest: Duration,
    most_connections: usize,
    slots: Arc<Semaphore>,
    unknown: Arc<UnknownClients>,
    pub(crate) guesses: PasswordGuesses,
    /// Each connection's secret, and how often its queries were cancelled.
    keys: Mutex<HashMap<u32, (u32, watch::Sender<u64>)>>,
}

impl PostgresListener {
    pub(crate) fn new(session: Session, settings: ServeSettings, queries: Handle) -> Self {
        Self {
            catalog: SessionCatalog::new(&session),
            session,
            queries,
            verifier: settings.verifier,
            must_encrypt: !settings.endpoint.is_local,
            tls: settings.endpoint.tls,
            longest: settings.longest,
            most_connections: settings.connections,
            slots: Arc::new(Semaphore::new(settings.connections)),
            unknown: Arc::default(),
            guesses: PasswordGuesses::default(),
            keys: Mutex::default(),
        }
    }

    /// Accepts connections, each in a task of its own.
    pub(crate) async fn listen(self: Arc<Self>, listener: &TcpListener) -> Outcome {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                sleep(PAUSE).await;
                continue;
            };
            let (server, mut place) = (Arc::clone(&self), self.unknown.place());
            drop(tokio::spawn(async move {
                let login = timeout(LONGEST_LOGIN, login::admit(&server, stream));
                let welcome = place.during(login).await;
                drop(place);
                if let Some(Ok(Ok(Some(KnownClient { wire, slot })))) = welcome {
                    server.serve(wire).await;
                    drop(slot);
                }
            }));
        }
    }

    /// Serves one client.
    async fn serve(self: Arc<Self>, mut wire: ClientWire) {
        let (Ok(process), Ok(secret)) = (random(), random()) else { return };
        let (process, secret) = (u32::from_be_bytes(process) >> 1, u32::from_be_bytes(secret));
        let (sender, cancelled) = watch::channel(0);
        self.keys().insert(process, (secret, sender));
        for (name, value) in SETTINGS {
            wire.send(&ServerMessage::Setting(name, value));
        }
        wire.send(&ServerMessage::Key { process, secret });
        // The end of a connection is no failure of the server.
        drop(PostgresConnection::new(Arc::clone(&self), wire, cancelled).serve().await);
        self.keys().remove(&process);
    }

    /// Cancels the running query of a connection, if the secret is its own.
    pub(crate) fn cancel(&self, process: u32, secret: u32) {
        if let Some((own, sender)) = self.keys().get(&process)
            && *own == secret
        {
            sender.send_modify(|count| *count += 1);
        }
    }

    /// A place for a connection.
    pub(crate) fn slot(&self) -> Result<tokio::sync::OwnedSemaphorePermit, CodedFailure> {
        Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let message = format!("all {} connections are taken", self.most_connections);
            CodedFailure::message("53300", message, "close one, or raise --connections")
        })
    }

    fn keys(&self) -> std::sync::MutexGuard<'_, HashMap<u32, (u32, watch::Sender<u64>)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends small messages at once.
pub(crate) fn prompt(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)
}
