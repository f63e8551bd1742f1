//! Admission: calls with the token or the password, on connections that have a place.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::failure::CodedFailure;
use crate::secret::{ServerSecret, random};
use arrow_flight::flight_service_server::FlightServiceServer;
use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use ring::hmac;
use stallmap_console::exit::Outcome;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::sleep;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{BoxFuture, Service as Layer};
use tonic::server::NamedService;

use crate::flight::connection::ConnectionState;
use crate::flight::service::SessionService;
use crate::flight::status::status;

/// Most bytes of a call's message. Its statement is shorter.
const MAX_BYTES: usize = 1 << 20;
/// Pause after a wrong token.
const PAUSE: Duration = Duration::from_secs(1);
/// A connection ends this long after its last query could have ended.
const IDLE: Duration = Duration::from_mins(10);
/// Clients pad Base64, or do not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The rules of admission.
pub(crate) struct FlightGate {
    key: hmac::Key,
    /// The token or password that the user knows, and the token that a handshake returns.
    tags: [hmac::Tag; 2],
    bearer: String,
    places: Arc<Semaphore>,
    most_connections: usize,
    /// Time of a connection after a call.
    time: Duration,
    /// Wrong tokens wait for each other.
    guess: Mutex<()>,
}

impl FlightGate {
    pub(crate) fn new(secret: &ServerSecret, longest: Duration, most_connections: usize) -> Outcome<Self> {
        let bytes: [u8; 32] = random()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        let bearer = ServerSecret::random()?.text;
        let tags = [&secret.text, &bearer].map(|text| hmac::sign(&key, text.as_bytes()));
        let places = Arc::new(Semaphore::new(most_connections));
        Ok(Self { key, tags, bearer, places, most_connections, time: longest + IDLE, guess: Mutex::new(()) })
    }

    /// The token that a handshake returns. It is as good as the password, and ends with the server.
    pub(crate) fn bearer(&self) -> &str {
        &self.bearer
    }

    /// Admits a call, or returns the reason against it.
    async fn admit(&self, headers: &HeaderMap, state: Option<Arc<ConnectionState>>) -> Result<(), Status> {
        let shown = shown(headers);
        if !shown.as_ref().is_some_and(|shown| self.is_right(shown)) {
            if shown.is_some() {
                let _turn = self.guess.lock().await;
                sleep(PAUSE).await;
            }
            let message =
                if shown.is_some() { "the token or password is wrong" } else { "the request has no token" };
            let hint =
                "the server printed it when it started, or read it from --password-file or STALLMAP_PASSWORD";
            return Err(status(&CodedFailure::message("28P01", message, hint)));
        }
        if state.is_some_and(|state| state.admit(&self.places, self.time)) {
            return Ok(());
        }
        let message = format!("all {} connections are taken", self.most_connections);
        Err(status(&CodedFailure::message("53300", message, "close one, or raise --connections")))
    }

    /// Compares in constant time.
    fn is_right(&self, shown: &[u8]) -> bool {
        let is = |tag: &hmac::Tag| hmac::verify(&self.key, shown, tag.as_ref()).is_ok();
        self.tags.iter().any(is)
    }
}

/// The token or password in the header `authorization`. Any user name is accepted.
fn shown(headers: &HeaderMap) -> Option<Vec<u8>> {
    let text = headers.get("authorization")?.to_str().ok()?;
    let (scheme, value) = text.split_once(' ')?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.as_bytes().to_vec());
    }
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| BASE64.decode(value).ok())??;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

/// The service behind the gate.
#[derive(Clone)]
pub(crate) struct GatedService {
    gate: Arc<FlightGate>,
    service: FlightServiceServer<SessionService>,
}

impl GatedService {
    pub(crate) fn new(gate: FlightGate, service: SessionService) -> Self {
        let service = FlightServiceServer::new(service).max_decoding_message_size(MAX_BYTES);
        Self { gate: Arc::new(gate), service }
    }
}

impl NamedService for GatedService {
    const NAME: &'static str = <FlightServiceServer<SessionService> as NamedService>::NAME;
}

impl Layer<Request<Body>> for GatedService {
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (gate, mut service) = (Arc::clone(&self.gate), self.service.clone());
        let state = request.extensions().get::<Arc<ConnectionState>>().map(Arc::clone);
        Box::pin(async move {
            match gate.admit(request.headers(), state).await {
                Ok(()) => service.call(request).await,
                Err(refused) => Ok(refused.into_http()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_in(value: &str) -> Option<Vec<u8>> {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", value.parse().unwrap());
        shown(&headers)
    }

    #[test]
    fn tokens_and_passwords_are_read() {
        let pair = BASE64.encode("any user:pass:word");
        let expected = Some(b"pass:word".to_vec());
        assert_eq!(shown_in(&format!("Basic {pair}")), expected);
        assert_eq!(shown_in(&format!("basic {}", pair.trim_end_matches('='))), expected);
        assert_eq!(shown_in("Bearer pass:word"), expected);
        for wrong in ["", "Bearer", "Basic *", "Basic dXNlcg==", "Digest x"] {
            assert_eq!(shown_in(wrong), None, "{wrong}");
        }
        assert_eq!(shown(&HeaderMap::new()), None);
    }

    #[test]
    fn only_the_two_tokens_are_right() {
        let secret = ServerSecret { text: "correct horse".to_owned(), is_given: true };
        let gate = FlightGate::new(&secret, Duration::from_secs(1), 1).unwrap();
        assert!(gate.is_right(b"correct horse") && gate.is_right(gate.bearer().as_bytes()));
        assert!(!gate.is_right(b"") && !gate.is_right(b"correct horse ") && !gate.is_right(b"Correct horse"));
    }
}
