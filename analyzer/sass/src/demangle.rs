//! Names as their programmers wrote them.

use std::fmt;

use cpp_demangle::{DemangleOptions, DemangleWrite, Symbol};

/// Longer names stay mangled: substitutions can make a short mangled name endlessly long.
const LONGEST: usize = 1 << 18;

/// A function's name, demangled. Unchanged if not mangled, damaged, or too long.
pub fn demangle(name: &str) -> String {
    let mut text = Bounded(String::new());
    let symbol = Some(name).filter(|name| name.len() <= LONGEST).and_then(|name| Symbol::new(name).ok());
    match symbol.map(|symbol| symbol.structured_demangle(&mut text, &DemangleOptions::new())) {
        Some(Ok(())) => text.0,
        _ => name.to_owned(),
    }
}

/// Text that does not grow beyond a bound.
struct Bounded(String);

impl DemangleWrite for Bounded {
    fn write_string(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}
