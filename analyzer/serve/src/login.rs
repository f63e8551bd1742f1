//! The begin of a connection: encryption, a cancelled query, or the password.

use std::io;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::failure::CodedFailure;
use crate::message::{MessageBody, ServerMessage, StartMessage};
use crate::scram::{MECHANISM, ScramExchange};
use crate::secret::random;
use crate::server::{PostgresListener, prompt};
use crate::wire::{ClientWire, WirePipe};

/// Codes of the steps of a login.
const ACCEPTED: u32 = 0;
const MECHANISMS: u32 = 10;
const CHALLENGE: u32 = 11;
const SIGNATURE: u32 = 12;

/// A client that gave the password, with its place.
pub(crate) struct KnownClient {
    pub(crate) wire: ClientWire,
    pub(crate) slot: OwnedSemaphorePermit,
}

/// Admits a client. None if the connection is over.
pub(crate) async fn admit(server: &PostgresListener, stream: TcpStream) -> io::Result<Option<KnownClient>> {
    prompt(&stream)?;
    let mut wire = ClientWire::new(Box::new(stream));
    let mut is_encrypted = false;
    // A client asks for each kind of encryption once.
    for _ in 0..3 {
        let Some(body) = wire.first_message().await? else { return Ok(None) };
        match StartMessage::read(body) {
            Ok(StartMessage::Tls) if server.tls.is_some() && !is_encrypted => {
                wire = encrypted(server, wire).await?;
                is_encrypted = true;
            }
            Ok(StartMessage::Tls | StartMessage::Gss) => answer(&mut wire, b'N').await?,
            Ok(StartMessage::Cancel { process, secret }) => {
                server.cancel(process, secret);
                return Ok(None);
            }
            Ok(StartMessage::Start { major: 3, minor, options }) => {
                if minor > 0 || !options.is_empty() {
                    wire.send(&ServerMessage::Version(0, &options));
                }
                return match start(server, &mut wire, is_encrypted).await? {
                    Ok(slot) => {
                        wire.trust();
                        Ok(Some(KnownClient { wire, slot }))
                    }
                    Err(refusal) => {
                        refusal.send(&mut wire, true);
                        wire.flush().await?;
                        Ok(None)
                    }
                };
            }
            Ok(StartMessage::Start { .. }) | Err(_) => {
                CodedFailure::protocol("the client speaks another protocol than 3").send(&mut wire, true);
                wire.flush().await?;
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// Writes one byte, which is no message.
async fn answer(wire: &mut ClientWire, byte: u8) -> io::Result<()> {
    wire.output().extend_from_slice(&[byte]);
    wire.flush().await
}

async fn encrypted(server: &PostgresListener, mut wire: ClientWire) -> io::Result<ClientWire> {
    answer(&mut wire, b'S').await?;
    let pipe: Box<dyn WirePipe> = wire.into_pipe()?;
    let Some(tls) = &server.tls else { return Err(io::ErrorKind::Unsupported.into()) };
    Ok(ClientWire::new(Box::new(tls.accept(pipe).await?)))
}

/// A place for the client, after its password.
async fn start(
    server: &PostgresListener,
    wire: &mut ClientWire,
    is_encrypted: bool,
) -> io::Result<Result<OwnedSemaphorePermit, CodedFailure>> {
    if server.must_encrypt && !is_encrypted {
        let message = "connections are encrypted, and this one is not";
        return Ok(Err(CodedFailure::message("28000", message, "connect with sslmode=require")));
    }
    if !has_password(server, wire).await? {
        let hint =
            "the server printed it when it started, or read it from --password-file or STALLMAP_PASSWORD";
        return Ok(Err(CodedFailure::message("28P01", "the password is wrong", hint)));
    }
    Ok(server.slot().inspect(|_| wire.send(&ServerMessage::Login(ACCEPTED, &[]))))
}

/// True if the client proved the password.
async fn has_password(server: &PostgresListener, wire: &mut ClientWire) -> io::Result<bool> {
    wire.send(&ServerMessage::Login(MECHANISMS, format!("{MECHANISM}\0\0").as_bytes()));
    let Some(first) = step(wire).await?.and_then(first_step) else { return Ok(false) };
    let random = random().map_err(|_| io::ErrorKind::Other)?;
    let Some(exchange) = ScramExchange::begin(&server.verifier, &first, random) else { return Ok(false) };
    wire.send(&ServerMessage::Login(CHALLENGE, exchange.challenge.as_bytes()));
    let last = step(wire).await?.and_then(|body| String::from_utf8(body.to_vec()).ok());
    let turn = server.guesses.turn().await;
    let Some(signature) = last.and_then(|last| exchange.finish(&server.verifier, &last)) else {
        turn.wrong().await;
        return Ok(false);
    };
    wire.send(&ServerMessage::Login(SIGNATURE, signature.as_bytes()));
    Ok(true)
}

/// The next message of a login.
async fn step(wire: &mut ClientWire) -> io::Result<Option<Bytes>> {
    wire.flush().await?;
    let message = wire.message().await?;
    Ok(message.filter(|(kind, _)| *kind == b'p').map(|(_, body)| body))
}

/// The client's first step behind its mechanism and its length.
fn first_step(body: Bytes) -> Option<String> {
    let mut body = MessageBody(body);
    if body.text().ok()? != MECHANISM {
        return None;
    }
    let length = body.u32().ok()? as usize;
    String::from_utf8(body.0.to_vec()).ok().filter(|first| first.len() == length)
}
