//! Passwords and tokens: given by the user, else random.

use std::fs;
use std::path::Path;

use ring::rand::{SecureRandom as _, SystemRandom};
use stallmap_console::args::serve::ServeArgs;
use stallmap_console::exit::{CommandFailure, IO, Outcome, USAGE};
use stallmap_console::output;
use stallmap_schema::hash::hexadecimal;

/// The variable that holds a password.
const VARIABLE: &str = "STALLMAP_PASSWORD";

/// The password of a server, which is a token if the server made it.
pub(crate) struct ServerSecret {
    /// The password, 8 bytes or more.
    pub(crate) text: String,
    /// True if a user chose it. The server never prints it.
    pub(crate) is_given: bool,
}

impl ServerSecret {
    /// The password of a file or of the environment, else 128 random bits.
    ///
    /// # Errors
    /// Fails if the file cannot be read, and if the password is too short.
    pub(crate) fn from_args(args: &ServeArgs) -> Outcome<Self> {
        match password(args.password_file.as_deref())? {
            Some(text) => Ok(Self { text, is_given: true }),
            None => Self::random(),
        }
    }

    /// 128 random bits as text.
    ///
    /// # Errors
    /// Fails if the system has no random numbers.
    pub(crate) fn random() -> Outcome<Self> {
        let bytes: [u8; 16] = random()?;
        Ok(Self { text: hexadecimal(&bytes), is_given: false })
    }

    /// The text that the server prints.
    pub(crate) fn shown(&self) -> &str {
        if self.is_given { "as given" } else { &self.text }
    }
}

/// The password of a file or of the environment. None if neither is there.
fn password(file: Option<&Path>) -> Outcome<Option<String>> {
    let (text, origin) = match file {
        Some(path) => {
            let read = fs::read_to_string(path);
            let text = read.map_err(|error| {
                CommandFailure::io(error, format!("read the password in `{}`", path.display()))
            })?;
            (text.lines().next().unwrap_or_default().to_owned(), format!("`{}`", output::path(path)))
        }
        None => match std::env::var(VARIABLE) {
            Ok(text) => (text, VARIABLE.to_owned()),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(error) => return Err(CommandFailure::message(USAGE, format!("{VARIABLE}: {error}"))),
        },
    };
    if text.len() < 8 {
        let message = format!("the password of {origin} has fewer than 8 characters");
        return Err(CommandFailure::message(USAGE, message)
            .hint("without one, the server prints a random one".to_owned()));
    }
    Ok(Some(text))
}

/// Random bytes of the system.
///
/// # Errors
/// Fails if it has none.
pub(crate) fn random<const N: usize>() -> Outcome<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| CommandFailure::message(IO, "the system has no random numbers"))?;
    Ok(bytes)
}
