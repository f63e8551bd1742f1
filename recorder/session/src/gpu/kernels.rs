//! Kernels that a regular expression finds by their name, mangled or not.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use regex::Regex;
use stallmap_sass::demangle;

/// Kernels by name. All without an expression.
pub struct KernelNames {
    expression: Option<Regex>,
    /// Results by name: demangling takes longer than a launch.
    known: Mutex<BTreeMap<String, bool>>,
}

impl KernelNames {
    /// The kernels that an expression finds. An error is a bad one.
    pub fn new(expression: Option<&str>) -> Result<Self, String> {
        let expression = expression.map(Regex::new).transpose();
        let expression =
            expression.map_err(|error| format!("bad regular expression for kernels: {error}"))?;
        Ok(Self { expression, known: Mutex::default() })
    }

    /// True if a kernel, by its mangled name, is one of them.
    pub fn hold(&self, name: &str) -> bool {
        let Some(expression) = &self.expression else { return true };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&held) = known.get(name) {
            return held;
        }
        let held = expression.is_match(name) || expression.is_match(&demangle(name));
        known.insert(name.to_owned(), held);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_searched_mangled_and_demangled() {
        let kernels = KernelNames::new(Some(r"^scale\(|^_Z3add")).unwrap();
        for _ in 0..2 {
            let held = ["_Z5scalePf", "_Z3addPf", "_Z3subPf"].map(|name| kernels.hold(name));
            assert_eq!(held, [true, true, false]);
        }
        assert!(KernelNames::new(None).unwrap().hold("anything"));
        assert!(KernelNames::new(Some("(")).is_err());
    }
}
