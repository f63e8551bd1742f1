//! The begin of a connection: encryption, a cancelled query, or the password.

use std::io;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::failure::Refusal;
use crate::message::{Body, First, Reply};
use crate::scram::{Exchange, MECHANISM};
use crate::secret::random;
use crate::server::{Server, prompt};
use crate::wire::{Pipe, Wire};

/// Codes of the steps of a login.
const ACCEPTED: u32 = 0;
const MECHANISMS: u32 = 10;
const CHALLENGE: u32 = 11;
const SIGNATURE: u32 = 12;

/// A client that gave the password, with its place.
pub(crate) struct Welcome {
    pub(crate) wire: Wire,
    pub(crate) slot: OwnedSemaphorePermit,
}

/// Admits a client. None if the connection is over.
pub(crate) async fn admit(server: &Server, stream: TcpStream) -> io::Result<Option<Welcome>> {
    prompt(&stream)?;
    let mut wire = Wire::new(Box::new(stream));
    let mut is_encrypted = false;
    // A client asks for each kind of encryption once.
    for _ in 0..3 {
        let Some(body) = wire.first_message().await? else { return Ok(None) };
        match First::read(body) {
            Ok(First::Tls) if server.tls.is_some() && !is_encrypted => {
                wire = encrypted(server, wire).await?;
                is_encrypted = true;
            }
            Ok(First::Tls | First::Gss) => answer(&mut wire, b'N').await?,
            Ok(First::Cancel { process, secret }) => {
                server.cancel(process, secret);
                return Ok(None);
            }
            Ok(First::Start { major: 3, minor, options }) => {
                if minor > 0 || !options.is_empty() {
                    wire.send(&Reply::Version(0, &options));
                }
                return match start(server, &mut wire, is_encrypted).await? {
                    Ok(slot) => {
                        wire.trust();
                        Ok(Some(Welcome { wire, slot }))
                    }
                    Err(refusal) => {
                        refusal.send(&mut wire, true);
                        wire.flush().await?;
                        Ok(None)
                    }
                };
            }
            Ok(First::Start { .. }) | Err(_) => {
                Refusal::protocol("the client speaks another protocol than 3").send(&mut wire, true);
                wire.flush().await?;
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// Writes one byte, which is no message.
async fn answer(wire: &mut Wire, byte: u8) -> io::Result<()> {
    wire.output().extend_from_slice(&[byte]);
    wire.flush().await
}

async fn encrypted(server: &Server, mut wire: Wire) -> io::Result<Wire> {
    answer(&mut wire, b'S').await?;
    let pipe: Box<dyn Pipe> = wire.into_pipe()?;
    let Some(tls) = &server.tls else { return Err(io::ErrorKind::Unsupported.into()) };
    Ok(Wire::new(Box::new(tls.accept(pipe).await?)))
}

/// A place for the client, after its password.
async fn start(
    server: &Server,
    wire: &mut Wire,
    is_encrypted: bool,
) -> io::Result<Result<OwnedSemaphorePermit, Refusal>> {
    if server.must_encrypt && !is_encrypted {
        let message = "connections are encrypted, and this one is not";
        return Ok(Err(Refusal::message("28000", message, "connect with sslmode=require")));
    }
    if !has_password(server, wire).await? {
        let hint =
            "the server printed it when it started, or read it from --password-file or STALLMAP_PASSWORD";
        return Ok(Err(Refusal::message("28P01", "the password is wrong", hint)));
    }
    Ok(server.slot().inspect(|_| wire.send(&Reply::Login(ACCEPTED, &[]))))
}

/// True if the client proved the password.
async fn has_password(server: &Server, wire: &mut Wire) -> io::Result<bool> {
    wire.send(&Reply::Login(MECHANISMS, format!("{MECHANISM}\0\0").as_bytes()));
    let Some(first) = step(wire).await?.and_then(first_step) else { return Ok(false) };
    let random = random().map_err(|_| io::ErrorKind::Other)?;
    let Some(exchange) = Exchange::begin(&server.verifier, &first, random) else { return Ok(false) };
    wire.send(&Reply::Login(CHALLENGE, exchange.challenge.as_bytes()));
    let last = step(wire).await?.and_then(|body| String::from_utf8(body.to_vec()).ok());
    let turn = server.guesses.turn().await;
    let Some(signature) = last.and_then(|last| exchange.finish(&server.verifier, &last)) else {
        turn.wrong().await;
        return Ok(false);
    };
    wire.send(&Reply::Login(SIGNATURE, signature.as_bytes()));
    Ok(true)
}

/// The next message of a login.
async fn step(wire: &mut Wire) -> io::Result<Option<Bytes>> {
    wire.flush().await?;
    let message = wire.message().await?;
    Ok(message.filter(|(kind, _)| *kind == b'p').map(|(_, body)| body))
}

/// The client's first step behind its mechanism and its length.
fn first_step(body: Bytes) -> Option<String> {
    let mut body = Body(body);
    if body.text().ok()? != MECHANISM {
        return None;
    }
    let length = body.u32().ok()? as usize;
    String::from_utf8(body.0.to_vec()).ok().filter(|first| first.len() == length)
}
