//! Opening a library and looking up its symbols.
#![expect(unsafe_code, reason = "dlopen and dlsym have no safe form")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// The reason why a library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No candidate could be opened.
    #[error("no {library} could be opened: {}", tried(.causes))]
    NotFound {
        /// The library.
        library: &'static str,
        /// Each path that was tried, with the loader's error.
        causes: Vec<(PathBuf, String)>,
    },
    /// The library lacks a function.
    #[error("{path} has no function {symbol}", path = .path.display())]
    MissingSymbol {
        /// The library's file.
        path: PathBuf,
        /// The function.
        symbol: &'static str,
    },
}

fn tried(causes: &[(PathBuf, String)]) -> String {
    if causes.is_empty() {
        return "none was found".to_owned();
    }
    let lines: Vec<String> = causes.iter().map(|(path, why)| format!("{} ({why})", path.display())).collect();
    lines.join("; ")
}

/// Opens the first candidate that the loader accepts, for the whole process and for good.
pub fn open_first(
    library: &'static str,
    candidates: &[PathBuf],
) -> Result<(&'static Library, PathBuf), LoadError> {
    let mut causes = Vec::new();
    for path in candidates {
        match open(path) {
            // A library of NVIDIA's registers threads and exit handlers: closing it is never safe.
            Ok(opened) => return Ok((Box::leak(Box::new(opened)), path.clone())),
            Err(error) => causes.push((path.clone(), error)),
        }
    }
    Err(LoadError::NotFound { library, causes })
}

fn open(path: &Path) -> Result<Library, String> {
    let name: &OsStr = path.as_os_str();
    // SAFETY: opening runs the library's initializers. The candidates are NVIDIA's libraries, made to be opened so.
    let opened = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) };
    // The loader's message is the source. The error itself says only that loading failed.
    opened.map_err(|error| std::error::Error::source(&error).unwrap_or(&error).to_string())
}

/// Declares a table of a library's functions and its loader.
#[macro_export]
macro_rules! functions {
    ($(#[doc = $doc:literal])+ $table:ident from $library:literal {
        $($(#[doc = $fdoc:literal])+ $name:ident: $symbol:ident($($type:ty),*) -> $result:ty;)+
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy)]
        pub struct $table {
            $($(#[doc = $fdoc])+ pub $name: unsafe extern "C" fn($($type),*) -> $result,)+
        }

        impl $table {
            /// Opens the first candidate and looks up every function.
            pub fn load(
                candidates: &[std::path::PathBuf],
            ) -> Result<(Self, std::path::PathBuf), $crate::load::LoadError> {
                let (library, path) = $crate::load::open_first($library, candidates)?;
                let missing = |symbol| $crate::load::LoadError::MissingSymbol { path: path.clone(), symbol };
                let table = Self {
                    $($name: {
                        // SAFETY: the type is the one that the library's header declares for this symbol.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($type),*) -> $result>(
                                concat!(stringify!($symbol), "\0").as_bytes(),
                            )
                        };
                        *found.map_err(|_no_such_symbol| missing(stringify!($symbol)))?
                    },)+
                };
                Ok((table, path))
            }
        }
    };
}
