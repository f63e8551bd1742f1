//! The server: connections with one request each, their number, and their times.

use std::io::{ErrorKind, Result as IoResult};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::channel::WebChannel;
use super::gate::{AdmissionResult, WebGate, form};
use super::hall::ServedCaptures;
use super::reply::WebReply;
use super::request::{HttpRequest, parameter};
use super::routes;
use crate::failure::CodedFailure;
use crate::query::QueryFault;
use crate::server::prompt;
use crate::unknown::{ConnectionSlot, PasswordGuesses, UnknownClients};
use crate::wire::WirePipe;
use crate::work::over;
use stallmap_console::exit::Outcome;
use tonic::codegen::http::StatusCode;

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
pub(crate) struct WebHost {
    pub(crate) hall: ServedCaptures,
    gate: WebGate,
    tls: Option<TlsAcceptor>,
    /// Time of a query.
    longest: Duration,
    most_connections: usize,
    slots: Arc<Semaphore>,
    unknown: Arc<UnknownClients>,
    guesses: PasswordGuesses,
}

impl WebHost {
    pub(crate) fn new(
        hall: ServedCaptures,
        gate: WebGate,
        tls: Option<TlsAcceptor>,
        longest: Duration,
        connections: usize,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(connections));
        let (unknown, guesses) = (Arc::default(), PasswordGuesses::default());
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
    async fn serve(&self, stream: TcpStream, mut place: ConnectionSlot) -> IoResult<()> {
        prompt(&stream)?;
        let deadline = Instant::now() + LONGEST_REQUEST;
        // A client that is not admitted gets its reply while it has a place.
        let Some(met) = place.during(self.met(stream, deadline)).await else { return Ok(()) };
        let Some(AdmittedRequest { mut channel, request, slot }) = met? else { return Ok(()) };
        drop(place);
        let reply = self.routed(&mut channel, &request, deadline).await?;
        send(channel, reply).await?;
        drop(slot);
        Ok(())
    }

    /// The HTTP request, if it is admitted. None if its client got another reply.
    async fn met(&self, stream: TcpStream, deadline: Instant) -> IoResult<Option<AdmittedRequest>> {
        let pipe: Box<dyn WirePipe> = match &self.tls {
            Some(tls) => Box::new(timeout_at(deadline, tls.accept(stream)).await??),
            None => Box::new(stream),
        };
        let mut channel = WebChannel::new(pipe);
        let reply = match timeout_at(deadline, channel.head()).await?? {
            None => return Ok(None),
            Some(Err(status)) => WebReply::text(status, "the request cannot be read"),
            Some(Ok(request)) => match self.gate.entry(&request) {
                AdmissionResult::Refused(reply) | AdmissionResult::Unknown(reply) => reply,
                AdmissionResult::Admitted => match Arc::clone(&self.slots).try_acquire_owned() {
                    Ok(slot) => return Ok(Some(AdmittedRequest { channel, request, slot })),
                    Err(_) => self.busy(),
                },
                AdmissionResult::Shown(token) => self.guessed(&request, &token).await,
                AdmissionResult::Form => {
                    match timeout_at(deadline, channel.body(&request, MAX_TOKEN_BYTES)).await?? {
                        Ok(body) => {
                            let token = parameter(&body, "token").unwrap_or_default();
                            self.guessed(&request, &token).await
                        }
                        Err(status) => WebReply::text(status, "the form cannot be read"),
                    }
                }
            },
        };
        send(channel, Some(reply)).await?;
        Ok(None)
    }

    /// The reply to a token.
    async fn guessed(&self, request: &HttpRequest, token: &str) -> WebReply {
        let turn = self.guesses.turn().await;
        if let Some(reply) = self.gate.shown(request, token) {
            return reply;
        }
        turn.wrong().await;
        form(StatusCode::UNAUTHORIZED, Some("The token or password is wrong."))
    }

    async fn routed(
        &self,
        channel: &mut WebChannel,
        request: &HttpRequest,
        deadline: Instant,
    ) -> IoResult<Option<WebReply>> {
        let body = match timeout_at(deadline, channel.body(request, routes::MAX_BODY_BYTES)).await?? {
            Ok(body) => body,
            Err(status) => return Ok(Some(WebReply::text(status, "the body cannot be read"))),
        };
        let limit = RequestEnd { deadline: Instant::now() + self.longest, longest: self.longest };
        match routes::answer(&self.hall, channel, request, &body, &limit).await {
            Ok(reply) => Ok(reply),
            Err(QueryFault::Refused(refusal)) => Ok(Some(WebReply::refusal(&refusal))),
            Err(QueryFault::Gone(error)) => Err(error),
        }
    }

    fn busy(&self) -> WebReply {
        let message = format!("all {} connections are taken", self.most_connections);
        let refusal =
            CodedFailure::message("53300", message, "wait for the other statements, or raise --connections");
        WebReply::failure(StatusCode::SERVICE_UNAVAILABLE, refusal.failure())
    }
}

/// An HTTP request of a known client, with its place among the connections.
struct AdmittedRequest {
    channel: WebChannel,
    request: HttpRequest,
    slot: OwnedSemaphorePermit,
}

/// Sends a reply, if it was not written already, and ends the connection.
async fn send(mut channel: WebChannel, reply: Option<WebReply>) -> IoResult<()> {
    if let Some(reply) = reply {
        timeout(LONGEST_REPLY, channel.write(&reply.bytes())).await??;
    }
    timeout(FAREWELL, channel.end()).await?
}

/// The end of a query: a time, or the end of its connection.
pub(crate) struct RequestEnd {
    deadline: Instant,
    longest: Duration,
}

impl RequestEnd {
    /// Waits for a part of a query.
    pub(crate) async fn work<T>(
        &self,
        channel: &mut WebChannel,
        work: impl Future<Output = T>,
    ) -> Result<T, QueryFault> {
        tokio::select! {
            biased;
            () = sleep_until(self.deadline) => Err(over(self.longest).into()),
            () = channel.closed() => Err(QueryFault::Gone(ErrorKind::ConnectionReset.into())),
            value = work => Ok(value),
        }
    }

    /// Writes a part of an answer.
    pub(crate) async fn write(&self, channel: &mut WebChannel, bytes: &[u8]) -> Result<(), QueryFault> {
        match timeout_at(self.deadline, channel.write(bytes)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(QueryFault::Gone(ErrorKind::TimedOut.into())),
        }
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}
