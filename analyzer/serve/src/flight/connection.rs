//! One connection: its place among the connections, and its end when no call comes.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, Instant, Sleep, sleep_until};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::unknown::ConnectionSlot;

/// A connection, plain or encrypted.
trait FlightPipe: AsyncRead + AsyncWrite + Send + Unpin {}

impl FlightPipe for TcpStream {}
impl FlightPipe for TlsStream<TcpStream> {}

/// The place and the end of a connection, which its calls know.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    held: Mutex<HeldConnection>,
}

#[derive(Debug)]
struct HeldConnection {
    /// It ends unless a call comes before.
    end: Instant,
    client: FlightClient,
}

/// The client, with the place of its connection.
#[derive(Debug)]
enum FlightClient {
    Unknown(ConnectionSlot),
    Known { _place: OwnedSemaphorePermit },
}

impl ConnectionState {
    /// The state of a client that has not shown the token.
    fn new(end: Instant, place: ConnectionSlot) -> Self {
        Self { held: Mutex::new(HeldConnection { end, client: FlightClient::Unknown(place) }) }
    }

    /// Admits a client that showed the token, for some time. False if all places are taken.
    pub(crate) fn admit(&self, places: &Arc<Semaphore>, time: Duration) -> bool {
        let mut held = self.held();
        if let FlightClient::Unknown(_) = held.client {
            let Ok(place) = Arc::clone(places).try_acquire_owned() else { return false };
            held.client = FlightClient::Known { _place: place };
        }
        held.end = held.end.max(Instant::now() + time);
        true
    }

    fn end(&self) -> Instant {
        self.held().end
    }

    /// Ready when an unknown client has lost its place.
    fn poll_evicted(&self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.held().client {
            FlightClient::Unknown(place) => place.poll_evicted(context),
            FlightClient::Known { .. } => Poll::Pending,
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HeldConnection> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that ends when no call comes.
pub(crate) struct IdleConnection {
    pipe: Pin<Box<dyn FlightPipe>>,
    state: Arc<ConnectionState>,
    timer: Pin<Box<Sleep>>,
}

impl IdleConnection {
    /// An unencrypted connection.
    pub(crate) fn plain(stream: TcpStream, end: Instant, place: ConnectionSlot) -> Self {
        Self::new(Box::pin(stream), end, place)
    }

    /// An encrypted connection.
    pub(crate) fn encrypted(stream: TlsStream<TcpStream>, end: Instant, place: ConnectionSlot) -> Self {
        Self::new(Box::pin(stream), end, place)
    }

    fn new(pipe: Pin<Box<dyn FlightPipe>>, end: Instant, place: ConnectionSlot) -> Self {
        Self { pipe, state: Arc::new(ConnectionState::new(end, place)), timer: Box::pin(sleep_until(end)) }
    }

    /// Ready at the end of the connection.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.state.poll_evicted(context).is_ready() {
            return Poll::Ready(());
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            let end = self.state.end();
            if end <= Instant::now() {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(end);
        }
    }
}

impl Connected for IdleConnection {
    type ConnectInfo = Arc<ConnectionState>;

    fn connect_info(&self) -> Self::ConnectInfo {
        Arc::clone(&self.state)
    }
}

impl AsyncRead for IdleConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if self.poll_end(context).is_ready() {
            return Poll::Ready(Err(over()));
        }
        self.pipe.as_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for IdleConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if self.poll_end(context).is_ready() {
            return Poll::Ready(Err(over()));
        }
        self.pipe.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.pipe.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.poll_end(context).is_ready() {
            return Poll::Ready(Err(over()));
        }
        self.pipe.as_mut().poll_shutdown(context)
    }
}

fn over() -> Error {
    Error::new(ErrorKind::TimedOut, "no request came")
}

#[cfg(test)]
mod tests {
    use crate::unknown::UnknownClients;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_connection_without_requests_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let unknown: Arc<UnknownClients> = Arc::default();
        let places = Arc::new(Semaphore::new(1));
        let begin = Instant::now();
        let mut connection = IdleConnection::plain(stream, begin + SHORT, unknown.place());
        assert!(connection.connect_info().admit(&places, 3 * SHORT));
        assert_eq!(places.available_permits(), 0);
        // Another one has no place, and a shorter time does not take any away.
        assert!(!ConnectionState::new(begin, unknown.place()).admit(&places, SHORT));
        assert!(connection.connect_info().admit(&places, SHORT));
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(begin.elapsed() >= 3 * SHORT);
        drop(connection);
        assert_eq!(places.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_connection_without_requests_ends_for_another_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let unknown: Arc<UnknownClients> = Arc::default();
        let end = Instant::now() + Duration::from_hours(1);
        let mut connection = IdleConnection::plain(stream, end, unknown.place());
        let others: Vec<_> = (0..100).map(|_| unknown.place()).collect();
        assert_eq!(connection.read_u8().await.unwrap_err().kind(), ErrorKind::TimedOut);
        drop(others);
    }
}
