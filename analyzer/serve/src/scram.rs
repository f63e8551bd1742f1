//! The check of a password without sending it: SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};

/// The mechanism's name.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
/// Rounds of the password's hash. PostgreSQL uses as many.
const ROUNDS: NonZeroU32 = NonZeroU32::new(4_096).unwrap();
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// The part of a password that a server stores.
pub(crate) struct ScramVerifier {
    salt: [u8; 16],
    stored_key: [u8; KEY_BYTES],
    server_key: hmac::Key,
}

impl ScramVerifier {
    /// The part for a password and a random salt.
    pub(crate) fn new(password: &str, salt: [u8; 16]) -> Self {
        let mut salted = [0; KEY_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, &salt, password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(hmac::HMAC_SHA256, &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let server_key = hmac::sign(&salted, b"Server Key");
        Self {
            salt,
            stored_key: sha256(client_key.as_ref()),
            server_key: hmac::Key::new(hmac::HMAC_SHA256, server_key.as_ref()),
        }
    }
}

/// An exchange after the client's first message.
pub(crate) struct ScramExchange {
    /// The server's first message.
    pub(crate) challenge: String,
    /// The client's first message without its header.
    bare: String,
    /// The header, as the client must repeat it.
    header: String,
    nonce: String,
}

impl ScramExchange {
    /// Begins with the client's first message: `n,,n=user,r=nonce`. None if it is another form.
    pub(crate) fn begin(verifier: &ScramVerifier, first: &str, random: [u8; 18]) -> Option<Self> {
        // A client that could bind the exchange to the TLS connection says `y`, others `n`.
        let bare = first.strip_prefix("n,,").or_else(|| first.strip_prefix("y,,"))?;
        let theirs = bare.split(',').nth(1)?.strip_prefix("r=").filter(|nonce| !nonce.is_empty())?;
        let nonce = format!("{theirs}{}", BASE64.encode(random));
        let challenge = format!("r={nonce},s={},i={ROUNDS}", BASE64.encode(verifier.salt));
        Some(Self { challenge, bare: bare.to_owned(), header: BASE64.encode(&first[..3]), nonce })
    }

    /// The server's signature, if the client's last message proves the password.
    pub(crate) fn finish(&self, verifier: &ScramVerifier, last: &str) -> Option<String> {
        let (unproven, proof) = last.rsplit_once(",p=")?;
        let expected = format!("c={},r={}", self.header, self.nonce);
        if unproven != expected {
            return None;
        }
        let proof: [u8; KEY_BYTES] = BASE64.decode(proof).ok()?.try_into().ok()?;
        let message = format!("{},{},{unproven}", self.bare, self.challenge);
        let stored = hmac::Key::new(hmac::HMAC_SHA256, &verifier.stored_key);
        let signature = hmac::sign(&stored, message.as_bytes());
        let mut client_key = proof;
        client_key.iter_mut().zip(signature.as_ref()).for_each(|(byte, mask)| *byte ^= mask);
        // The hash of a guess says nothing about the stored one: this needs no constant time.
        if sha256(&client_key) != verifier.stored_key {
            return None;
        }
        let signature = hmac::sign(&verifier.server_key, message.as_bytes());
        Some(format!("v={}", BASE64.encode(signature)))
    }
}

fn sha256(bytes: &[u8]) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677, section 3, with its salt, nonces and proof.
    #[test]
    fn the_example_of_the_standard_holds() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap().try_into().unwrap();
        let verifier = ScramVerifier::new("pencil", salt);
        let mut exchange =
            ScramExchange::begin(&verifier, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO", [0; 18]).unwrap();
        exchange.nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned();
        exchange.challenge = format!("r={},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", exchange.nonce);
        let last = format!("c=biws,r={},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", exchange.nonce);
        let signature = exchange.finish(&verifier, &last);
        assert_eq!(signature.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        let other = ScramVerifier::new("pencils", salt);
        assert!(exchange.finish(&other, &last).is_none());
        assert!(exchange.finish(&verifier, &last.replace("c=biws", "c=eSws")).is_none());
    }

    #[test]
    fn other_forms_are_refused() {
        let verifier = ScramVerifier::new("pencil", [0; 16]);
        for first in ["", "p=tls-server-end-point,,n=,r=x", "n,,n=", "n,,n=,r=", "n,a=b,n=,r=x"] {
            assert!(ScramExchange::begin(&verifier, first, [0; 18]).is_none(), "{first}");
        }
    }
}
