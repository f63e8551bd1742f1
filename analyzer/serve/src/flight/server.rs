//! Connections: their acceptance, their encryption, and the bounds of HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use crate::unknown::{ConnectionSlot, UnknownClients};
use futures::{Stream, stream};
use stallmap_console::exit::{CommandFailure, OK, Outcome};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::TlsAcceptor;
use tonic::transport::Server;

use crate::flight::connection::IdleConnection;
use crate::flight::gate::{FlightGate, GatedService};
use crate::flight::service::SessionService;

/// Time to show the token.
const LONGEST_LOGIN: Duration = Duration::from_secs(10);
/// Pause after the system has no connection to give.
const PAUSE: Duration = Duration::from_millis(100);
/// Most calls at a time of one connection.
const MAX_REQUESTS: u32 = 32;
/// Most bytes of the headers of a call.
const MAX_HEADER_BYTES: u32 = 16 << 10;
/// A peer that is silent for this time is asked for a sign of life.
const SILENCE: Duration = Duration::from_mins(1);
/// Time for that sign.
const LONGEST_SIGN: Duration = Duration::from_secs(20);

/// Serves until a signal ends the program.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    gate: FlightGate,
    service: SessionService,
) -> Outcome {
    let mut builder = Server::builder()
        .max_concurrent_streams(MAX_REQUESTS)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .http2_keepalive_interval(Some(SILENCE))
        .http2_keepalive_timeout(Some(LONGEST_SIGN));
    let router = builder.add_service(GatedService::new(gate, service));
    let ended = router.serve_with_incoming(connections(listener, tls)).await;
    ended.map(|()| OK).map_err(|error| CommandFailure::io(error, "serve connections"))
}

/// Connections that are ready for calls.
fn connections(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
) -> impl Stream<Item = std::io::Result<IdleConnection>> {
    let (sender, accepted) = mpsc::channel(1);
    drop(tokio::spawn(accept(listener, tls, sender)));
    stream::unfold(accepted, async |mut accepted| {
        accepted.recv().await.map(|connection| (Ok(connection), accepted))
    })
}

/// Accepts connections, each encrypted in a task of its own.
async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, sender: mpsc::Sender<IdleConnection>) {
    let unknown: Arc<UnknownClients> = Arc::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let (tls, sender, place) = (tls.clone(), sender.clone(), unknown.place());
        drop(tokio::spawn(async move {
            // The end of a connection is no failure of the server.
            if let Some(connection) = prepared(stream, tls, place).await {
                drop(sender.send(connection).await);
            }
        }));
    }
}

/// A connection that is encrypted if it must be. None if its client does not manage that in time.
async fn prepared(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    mut place: ConnectionSlot,
) -> Option<IdleConnection> {
    stream.set_nodelay(true).ok()?;
    let end = Instant::now() + LONGEST_LOGIN;
    match tls {
        None => Some(IdleConnection::plain(stream, end, place)),
        Some(tls) => {
            let stream = place.during(timeout_at(end, tls.accept(stream))).await?.ok()?.ok()?;
            Some(IdleConnection::encrypted(stream, end, place))
        }
    }
}
