//! Removal of secrets from texts: for one salt, the same secret becomes the same placeholder everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

/// Public packages: paths inside them are not secret.
const PUBLIC: [&str; 40] = [
    "accelerate",
    "apex",
    "cuda",
    "cupy",
    "cutlass",
    "datasets",
    "deepspeed",
    "diffusers",
    "einops",
    "flash_attn",
    "flax",
    "functorch",
    "jax",
    "jaxlib",
    "keras",
    "lightning",
    "mpmath",
    "networkx",
    "numba",
    "numpy",
    "nvidia",
    "onnx",
    "onnxruntime",
    "pandas",
    "peft",
    "pytorch_lightning",
    "safetensors",
    "scipy",
    "sglang",
    "sklearn",
    "sympy",
    "tensorflow",
    "timm",
    "torch",
    "torchaudio",
    "torchgen",
    "torchvision",
    "transformers",
    "triton",
    "vllm",
];
/// Generic user names.
const COMMON_USERS: [&str; 8] = ["root", "user", "ubuntu", "runner", "admin", "nobody", "default", "shared"];
/// Shorter words occur everywhere at random.
const SHORTEST_SECRET: usize = 4;
/// Digits of an alias: 40 bits.
const ALIAS_DIGITS: usize = 10;

static USER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?:^|/)(?:home|Users)/([^/]+)").ok());
/// Installed files: the folder's name, and the path below it.
static INSTALLED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?:.*/)?((?:site|dist)-packages/|lib(?:64)?/python[0-9.]+/)(.*)$").ok());
/// A path in a text: absolute, at the start or after a character that cannot be part of one.
static IN_TEXT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(^|[\s"'`=(,:;\[])((?:~|\.\.?)?/[^\s"'`(),:;\[\]{}<>|]+)"#).ok());

/// Removes secrets from texts, and records them.
#[derive(Debug)]
pub(super) struct Words {
    key: [u8; 32],
    /// True to remove base names of files too.
    files: bool,
    /// Complete folders and names that were replaced. None of them may occur in the result.
    secrets: BTreeSet<String>,
    /// Names of users and machines, replaced wherever they occur as a word.
    people: BTreeMap<String, String>,
    finder: Option<Regex>,
}

impl Words {
    /// Placeholders for a salt.
    pub(super) fn new(salt: &[u8], files: bool) -> Self {
        let key = blake3::derive_key("stallmap redact 1", salt);
        let (secrets, people) = (BTreeSet::new(), BTreeMap::new());
        Self { key, files, secrets, people, finder: None }
    }

    /// Replaced values.
    pub(super) fn secrets(&self) -> &BTreeSet<String> {
        &self.secrets
    }

    /// Bytes derived from the salt and a text.
    pub(super) fn noise(&self, text: &[u8], wanted: &mut [u8]) {
        blake3::Hasher::new_keyed(&self.key).update(text).finalize_xof().fill(wanted);
    }

    /// A short placeholder for a secret.
    pub(super) fn alias(&self, text: &str) -> String {
        let mut noise = [0; ALIAS_DIGITS / 2];
        self.noise(text.as_bytes(), &mut noise);
        noise.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// The name of a machine.
    pub(super) fn host(&mut self, name: &str) -> String {
        let alias = format!("host-{}", self.alias(name));
        self.person(name, &alias);
        alias
    }

    /// A path without the names of its folders.
    pub(super) fn path(&mut self, path: &str) -> String {
        if path.is_empty() || path.starts_with('<') {
            return path.to_owned();
        }
        self.meet_user(path);
        let installed = INSTALLED.as_ref().and_then(|regex| regex.captures(path));
        if let Some(parts) = installed {
            let (marker, rest) =
                (parts.get(1).map_or("", |m| m.as_str()), parts.get(2).map_or("", |m| m.as_str()));
            let folder = path.strip_suffix(rest).and_then(|head| head.strip_suffix(marker)).unwrap_or("");
            let rest =
                if marker.starts_with("lib") || is_public(rest) { rest.to_owned() } else { self.split(rest) };
            let head = if folder.is_empty() { String::new() } else { self.folder(folder) + "/" };
            return head + marker + &rest;
        }
        if is_public(path) { path.to_owned() } else { self.split(path) }
    }

    /// A path, of whose last part only the name stays.
    fn split(&mut self, path: &str) -> String {
        let (folder, base) =
            path.rsplit_once('/').map_or((None, path), |(folder, base)| (Some(folder), base));
        let base = if self.files { self.base(base) } else { base.to_owned() };
        match folder {
            None => base,
            Some("") => format!("/{base}"),
            Some("." | "..") => path.to_owned(),
            Some(folder) => self.folder(folder) + "/" + &base,
        }
    }

    fn folder(&mut self, folder: &str) -> String {
        let folder = folder.trim_end_matches('/');
        self.secret(folder);
        let slash = if folder.starts_with('/') { "/" } else { "" };
        format!("{slash}d-{}", self.alias(folder))
    }

    /// A path of the same length without the names of its folders: for files with fixed offsets.
    pub(super) fn path_in_place(&mut self, path: &str) -> String {
        if self.path(path) == path {
            return path.to_owned();
        }
        let base = if self.files { "" } else { path.rsplit('/').next().unwrap_or("") };
        self.fill(path, base)
    }

    /// A folder of the same length, all of whose names are gone.
    pub(super) fn folder_in_place(&mut self, path: &str) -> String {
        if path.len() < 2 || path == ".." {
            return path.to_owned();
        }
        self.meet_user(path);
        self.secret(path.trim_end_matches('/'));
        self.fill(path, "")
    }

    /// A text of the same length with the same leading `/`, and with the retained end.
    fn fill(&self, path: &str, stays: &str) -> String {
        let slash = if path.starts_with('/') { "/" } else { "" };
        let join = if stays.is_empty() { "" } else { "/" };
        let count = path.len().saturating_sub(slash.len() + join.len() + stays.len());
        format!("{slash}{}{join}{stays}", self.letters(path, count))
    }

    /// Letters and digits derived from a text.
    pub(super) fn letters(&self, text: &str, count: usize) -> String {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut noise = vec![0; count];
        self.noise(text.as_bytes(), &mut noise);
        noise.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
    }

    /// A folder, all of it.
    pub(super) fn whole_folder(&mut self, path: &str) -> String {
        self.meet_user(path);
        if path.len() < 2 { path.to_owned() } else { self.folder(path) }
    }

    /// A file's base name.
    fn base(&mut self, base: &str) -> String {
        let (stem, ending) = base.split_once('.').map_or((base, ""), |(stem, ending)| (stem, ending));
        if stem.is_empty() || base.starts_with('<') {
            return base.to_owned();
        }
        self.secret(base);
        let dot = if ending.is_empty() { "" } else { "." };
        format!("f-{}{dot}{ending}", self.alias(stem))
    }

    /// A text without paths and names of users.
    pub(super) fn scrub(&mut self, text: &str) -> String {
        let Some(regex) = IN_TEXT.as_ref().filter(|_| text.contains('/')) else { return self.named(text) };
        let replaced = regex.replace_all(text, |parts: &regex::Captures<'_>| {
            let part = |index| parts.get(index).map_or("", |part| part.as_str());
            format!("{}{}", part(1), self.path(part(2)))
        });
        let replaced = replaced.into_owned();
        self.named(&replaced)
    }

    /// Collects the paths in a text.
    pub(super) fn meet_in_text(&mut self, text: &str) {
        self.scrub(text);
    }

    /// A text without names of users and machines. All of them must have been collected before.
    pub(super) fn named(&mut self, text: &str) -> String {
        if self.people.is_empty() {
            return text.to_owned();
        }
        if self.finder.is_none() {
            let names: Vec<_> = self.people.keys().map(|name| regex::escape(name)).collect();
            self.finder = Regex::new(&format!(r"\b(?:{})\b", names.join("|"))).ok();
        }
        let Some(finder) = &self.finder else { return text.to_owned() };
        let alias = |found: &regex::Captures<'_>| {
            found.get(0).and_then(|name| self.people.get(name.as_str())).cloned().unwrap_or_default()
        };
        finder.replace_all(text, alias).into_owned()
    }

    fn meet_user(&mut self, path: &str) {
        let users = USER.as_ref().and_then(|regex| regex.captures(path));
        let Some(user) = users.and_then(|parts| Some(parts.get(1)?.as_str().to_owned())) else { return };
        if !COMMON_USERS.contains(&user.as_str()) {
            let alias = format!("user-{}", self.alias(&user));
            self.person(&user, &alias);
        }
    }

    fn person(&mut self, name: &str, alias: &str) {
        if name.len() >= SHORTEST_SECRET && self.people.insert(name.to_owned(), alias.to_owned()).is_none() {
            self.secret(name);
            self.finder = None;
        }
    }

    fn secret(&mut self, text: &str) {
        // A name of a few letters occurs in every file at random, and identifies nothing.
        if text.len() >= SHORTEST_SECRET && text.chars().any(char::is_alphanumeric) {
            self.secrets.insert(text.to_owned());
        }
    }
}

fn is_public(path: &str) -> bool {
    path.split_once('/').is_some_and(|(package, _)| PUBLIC.contains(&package))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        Words::new(b"salt", false)
    }

    #[test]
    fn folders_go_and_base_names_stay() {
        let mut words = words();
        let path = words.path("/home/alice/secret/train.py");
        assert!(path.starts_with("/d-") && path.ends_with("/train.py") && path.len() == 22, "{path}");
        assert_eq!(words.path("train.py"), "train.py");
        assert_eq!(words.path("<string>"), "<string>");
        assert_eq!(words.path("torch/nn/functional.py"), "torch/nn/functional.py");
        let installed = words.path("/home/alice/v/lib/python3.12/site-packages/torch/nn/functional.py");
        assert!(installed.ends_with("/site-packages/torch/nn/functional.py"), "{installed}");
        assert!(!words.path("/v/site-packages/corp_models/a.py").contains("corp"));
        assert!(words.secrets().contains("alice") && words.secrets().contains("/home/alice/secret"));
    }

    #[test]
    fn one_salt_gives_one_word() {
        assert_eq!(words().path("/a/bcde/f.py"), words().path("/a/bcde/f.py"));
        assert_ne!(words().path("/a/bcde/f.py"), Words::new(b"other", false).path("/a/bcde/f.py"));
    }

    #[test]
    fn texts_lose_paths_and_people() {
        let mut words = words();
        words.host("alices-laptop");
        words.path("/home/alice/x.py");
        let text =
            words.scrub("cannot open '/home/alice/data/x.bin' on alices-laptop, says alice and/or palice");
        assert!(!text.contains("/home") && !text.contains("alices-laptop"), "{text}");
        assert!(text.contains("and/or palice") && text.contains("x.bin'"), "{text}");
    }
}
