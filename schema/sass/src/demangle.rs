//! Demangling of names.

use std::fmt;

use cpp_demangle::{DemangleOptions, DemangleWrite, Symbol};

/// Longer names are given as they are: substitutions can make a short mangled name endlessly long.
const LONGEST: usize = 1 << 18;

/// A function's name, demangled. As it is where it is not mangled, damaged, or too long. Names that begin otherwise than with
/// `_Z` are types to the library: `f` would be `float`. A function that is compiled for
/// one kernel only, `$kernel$function`, is one in a kernel.
pub fn demangle(name: &str) -> String {
    if let Some((kernel, function)) = name.strip_prefix('$').and_then(|local| local.rsplit_once('$'))
        && function.starts_with("_Z")
    {
        return format!("{} in {}", demangled(function), demangled(kernel));
    }
    demangled(name)
}

/// The name of a host function, demangled, without its parameters and its type.
pub fn demangle_name(name: &str) -> String {
    demangled_with(name, DemangleOptions::new().no_params().no_return_type())
}

fn demangled(name: &str) -> String {
    demangled_with(name, DemangleOptions::new())
}

fn demangled_with(name: &str, options: DemangleOptions) -> String {
    let mut text = BoundedText(String::new());
    let is_mangled = name.starts_with("_Z") && name.len() <= LONGEST;
    let symbol = is_mangled.then_some(name).and_then(|name| Symbol::new(name).ok());
    match symbol.map(|symbol| symbol.structured_demangle(&mut text, &options)) {
        Some(Ok(())) => text.0,
        _ => name.to_owned(),
    }
}

/// Text that does not grow beyond a bound.
struct BoundedText(String);

impl DemangleWrite for BoundedText {
    fn write_string(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn a_function_of_one_kernel_names_it() {
        assert_eq!(demangle("$callee$_Z5fetchPKjj"), "fetch(unsigned int const*, unsigned int) in callee");
        assert_eq!(demangle("$_Z1kPf$_Z1fv"), "f() in k(float*)");
        for name in ["$", "$a$b", "plain", "$_Z1fv", "f", "Kx", "St"] {
            assert_eq!(demangle(name), name);
        }
    }
}
