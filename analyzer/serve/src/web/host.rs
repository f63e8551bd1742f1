//! The server: connections with one request each, their number, and their times.

use std::io::{ErrorKind, Result as IoResult};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::channel::Channel;
use super::gate::{Entry, Gate, form};
use super::hall::Hall;
use super::reply::{Reply, Status};
use super::request::{Request, parameter};
use super::routes;
use crate::failure::Refusal;
use crate::query::Fault;
use crate::server::prompt;
use crate::unknown::{Guesses, Place, Unknown};
use crate::wire::Pipe;
use crate::work::over;
use stallmap_console::exit::Outcome;

/// Time to send a request.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);
/// Time to receive an error or a page.
const LONGEST_REPLY: Duration = Duration::from_mins(1);
/// Time to close a connection.
const FAREWELL: Duration = Duration::from_secs(2);
/// Pause after the system has no connection to give.
const NO_CONNECTION: Duration = Duration::from_millis(100);
/// Most bytes of a token.
const MAX_TOKEN_BYTES: usize = 4 << 10;

/// The state that connections share.
pub(crate) struct Host {
    pub(crate) hall: Hall,
    gate: Gate,
    tls: Option<TlsAcceptor>,
    /// Time of a query.
    longest: Duration,
    most_connections: usize,
    slots: Arc<Semaphore>,
    unknown: Arc<Unknown>,
    guesses: Guesses,
}

impl Host {
    pub(crate) fn new(
        hall: Hall,
        gate: Gate,
        tls: Option<TlsAcceptor>,
        longest: Duration,
        connections: usize,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(connections));
        let (unknown, guesses) = (Arc::default(), Guesses::default());
        Self { hall, gate, tls, longest, most_connections: connections, slots, unknown, guesses }
    }

    /// Accepts connections, each in a task of its own.
    pub(crate) async fn listen(self: Arc<Self>, listener: &TcpListener) -> Outcome {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                sleep(NO_CONNECTION).await;
                continue;
            };
            let (host, place) = (Arc::clone(&self), self.unknown.place());
            // The end of a connection is no failure of the server.
            drop(tokio::spawn(async move { host.serve(stream, place).await }));
        }
    }

    /// Serves the request of one connection.
    async fn serve(&self, stream: TcpStream, mut place: Place) -> IoResult<()> {
        prompt(&stream)?;
        let deadline = Instant::now() + LONGEST_REQUEST;
        // A client that is not admitted gets its reply while it has a place.
        let Some(met) = place.during(self.met(stream, deadline)).await else { return Ok(()) };
        let Some(Admitted { mut channel, request, slot }) = met? else { return Ok(()) };
        drop(place);
        let reply = self.routed(&mut channel, &request, deadline).await?;
        send(channel, reply).await?;
        drop(slot);
        Ok(())
    }

    /// The HTTP request, if it is admitted. None if its client got another reply.
    async fn met(&self, stream: TcpStream, deadline: Instant) -> IoResult<Option<Admitted>> {
        let pipe: Box<dyn Pipe> = match &self.tls {
            Some(tls) => Box::new(timeout_at(deadline, tls.accept(stream)).await??),
            None => Box::new(stream),
        };
        let mut channel = Channel::new(pipe);
        let reply = match timeout_at(deadline, channel.head()).await?? {
            None => return Ok(None),
            Some(Err(status)) => Reply::text(status, "the request cannot be read"),
            Some(Ok(request)) => match self.gate.entry(&request) {
                Entry::Refused(reply) | Entry::Unknown(reply) => reply,
                Entry::Admitted => match Arc::clone(&self.slots).try_acquire_owned() {
                    Ok(slot) => return Ok(Some(Admitted { channel, request, slot })),
                    Err(_) => self.busy(),
                },
                Entry::Shown(token) => self.guessed(&request, &token).await,
                Entry::Form => match timeout_at(deadline, channel.body(&request, MAX_TOKEN_BYTES)).await?? {
                    Ok(body) => {
                        let token = parameter(&body, "token").unwrap_or_default();
                        self.guessed(&request, &token).await
                    }
                    Err(status) => Reply::text(status, "the form cannot be read"),
                },
            },
        };
        send(channel, Some(reply)).await?;
        Ok(None)
    }

    /// The reply to a token.
    async fn guessed(&self, request: &Request, token: &str) -> Reply {
        let turn = self.guesses.turn().await;
        if let Some(reply) = self.gate.shown(request, token) {
            return reply;
        }
        turn.wrong().await;
        form(Status::Unauthorized, Some("The token or password is wrong."))
    }

    async fn routed(
        &self,
        channel: &mut Channel,
        request: &Request,
        deadline: Instant,
    ) -> IoResult<Option<Reply>> {
        let body = match timeout_at(deadline, channel.body(request, routes::MAX_BODY_BYTES)).await?? {
            Ok(body) => body,
            Err(status) => return Ok(Some(Reply::text(status, "the body cannot be read"))),
        };
        let limit = Limit { deadline: Instant::now() + self.longest, longest: self.longest };
        match routes::answer(&self.hall, channel, request, &body, &limit).await {
            Ok(reply) => Ok(reply),
            Err(Fault::Refused(refusal)) => Ok(Some(Reply::refusal(&refusal))),
            Err(Fault::Gone(error)) => Err(error),
        }
    }

    fn busy(&self) -> Reply {
        let message = format!("all {} connections are taken", self.most_connections);
        let refusal =
            Refusal::message("53300", message, "wait for the other statements, or raise --connections");
        Reply::failure(Status::Busy, refusal.failure())
    }
}

/// An HTTP request of a known client, with its place among the connections.
struct Admitted {
    channel: Channel,
    request: Request,
    slot: OwnedSemaphorePermit,
}

/// Sends a reply, if it was not written already, and ends the connection.
async fn send(mut channel: Channel, reply: Option<Reply>) -> IoResult<()> {
    if let Some(reply) = reply {
        timeout(LONGEST_REPLY, channel.write(&reply.bytes())).await??;
    }
    timeout(FAREWELL, channel.end()).await?
}

/// The end of a query: a time, or the end of its connection.
pub(crate) struct Limit {
    deadline: Instant,
    longest: Duration,
}

impl Limit {
    /// Waits for a part of a query.
    pub(crate) async fn work<T>(
        &self,
        channel: &mut Channel,
        work: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        tokio::select! {
            biased;
            () = sleep_until(self.deadline) => Err(over(self.longest).into()),
            () = channel.closed() => Err(Fault::Gone(ErrorKind::ConnectionReset.into())),
            value = work => Ok(value),
        }
    }

    /// Writes a part of an answer.
    pub(crate) async fn write(&self, channel: &mut Channel, bytes: &[u8]) -> Result<(), Fault> {
        match timeout_at(self.deadline, channel.write(bytes)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(Fault::Gone(ErrorKind::TimedOut.into())),
        }
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}
