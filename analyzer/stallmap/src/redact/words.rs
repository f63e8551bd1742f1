//! Removal of secrets from texts: for one salt, the same secret becomes the same placeholder everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use regex::Regex;
use stallmap_schema::hash::hexadecimal;

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
/// Shorter names without a dot, an underscore or a colon are everybody's words.
const SHORTEST_NAME: usize = 12;
/// Digits of an alias: 40 bits.
const ALIAS_DIGITS: usize = 10;

/// Words of the field and of placeholders, which users and machines can be called: their paths are replaced, but not the words elsewhere.
const COMMON_WORDS: [&str; 42] = [
    "accelerator",
    "access",
    "backward",
    "batch",
    "build",
    "cluster",
    "compute",
    "cuda",
    "data",
    "device",
    "element",
    "forward",
    "global",
    "graph",
    "index",
    "kernel",
    "kernels",
    "launch",
    "layer",
    "local",
    "localhost",
    "main",
    "memory",
    "model",
    "models",
    "module",
    "node",
    "python",
    "sample",
    "shared",
    "stallmap",
    "stream",
    "tensor",
    "test",
    "tests",
    "thread",
    "train",
    "training",
    "warp",
    "worker",
    "host",
    "user",
];
/// Folders next to those of users.
const COMMON_FOLDERS: [&str; 16] = [
    "checkpoints",
    "code",
    "common",
    "data",
    "datasets",
    "experiments",
    "home",
    "models",
    "project",
    "projects",
    "public",
    "shared",
    "src",
    "tmp",
    "users",
    "work",
];

/// The folder of a user, in places where systems put them.
static USER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let below = r"(?i)(?:^|[/\\])(?:home\d*|homes|users?|people)[/\\]+([^/\\]+)";
    Regex::new(&format!(r"{below}|^/+(?:u|nfs|scratch)/+(?:(?:home|users)/+)?([^/]+)")).ok()
});
/// Installed files: the folder's name, and the path below it.
static INSTALLED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?:.*/)?((?:site|dist)-packages/|lib(?:64)?/python[0-9.]+/)(.*)$").ok());
/// A path in a text: absolute, at the start or after a character that cannot be part of one. In quotes it ends with these.
static IN_TEXT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let root = r"(?:(?:~|\.\.?)?/|[A-Za-z]:[\\/]|\\\\)";
    Regex::new(&format!(
        r#"(?<mark>["'`])(?<quoted>{root}[^"'`\n]+)|(?<before>^|[\s=(,:;\[])(?<bare>{root}[^\s"'`(),:;\[\]{{}}<>|]+)"#
    ))
    .ok()
});

/// Removes secrets from texts, and records them.
#[derive(Debug)]
pub(super) struct WordRedactor {
    key: [u8; 32],
    /// True to remove base names of files too.
    files: bool,
    /// Complete folders that were replaced. None of them may occur in the result.
    folders: BTreeSet<String>,
    /// Names of machines, replaced wherever they occur as a word: `h200` is not the GPU H200.
    hosts: BTreeMap<String, String>,
    /// Names of users in lower case, replaced wherever they occur as a word.
    people: BTreeMap<String, String>,
    /// Distinctive names of files, code and models, replaced wherever they occur as a word.
    names: BTreeMap<String, String>,
    finders: Option<Rc<[WordFinder]>>,
}

/// Replaces words.
#[derive(Debug)]
struct WordFinder {
    automaton: AhoCorasick,
    /// The replacement of each of its patterns.
    aliases: Vec<String>,
}

impl WordFinder {
    fn new(words: &BTreeMap<String, String>, any_case: bool) -> Option<Self> {
        let automaton =
            AhoCorasickBuilder::new().ascii_case_insensitive(any_case).build(words.keys()).ok()?;
        Some(Self { automaton, aliases: words.values().cloned().collect() })
    }

    /// The text with each word replaced by what `alias` gives for the word and its alias.
    fn replace(&self, text: &str, alias: impl Fn(&str, &str) -> String) -> String {
        let found = self.automaton.find_overlapping_iter(text);
        let mut words: Vec<_> = found.filter(|found| is_word(text.as_bytes(), found.range())).collect();
        // The longest of those that begin at one place.
        words.sort_by_key(|word| (word.start(), std::cmp::Reverse(word.end())));
        let (mut replaced, mut end) = (String::new(), 0);
        for word in words.iter().filter(|word| text.get(word.range()).is_some()) {
            if word.start() >= end {
                let of = self.aliases.get(word.pattern().as_usize()).map_or("", String::as_str);
                replaced += &text[end..word.start()];
                replaced += &alias(&text[word.range()], of);
                end = word.end();
            }
        }
        replaced + &text[end..]
    }
}

/// True if no letter, digit or underscore precedes or follows a range.
pub(super) fn is_word(text: &[u8], range: Range<usize>) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let before = range.start.checked_sub(1).and_then(|before| text.get(before));
    !is_part(before) && !is_part(text.get(range.end))
}

impl WordRedactor {
    /// Placeholders for a salt.
    pub(super) fn new(salt: &[u8], files: bool) -> Self {
        let key = blake3::derive_key("stallmap redact 1", salt);
        let (folders, hosts) = (BTreeSet::new(), BTreeMap::new());
        let (people, names) = (BTreeMap::new(), BTreeMap::new());
        Self { key, files, folders, hosts, people, names, finders: None }
    }

    /// Replaced folders and machines.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.folders.iter().chain(self.hosts.keys()).map(String::as_str)
    }

    /// Replaced users.
    pub(super) fn people(&self) -> impl Iterator<Item = &str> {
        self.people.keys().map(String::as_str)
    }

    /// Replaced names of files, code and models.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Bytes derived from the salt and a text.
    pub(super) fn noise(&self, text: &[u8], wanted: &mut [u8]) {
        blake3::Hasher::new_keyed(&self.key).update(text).finalize_xof().fill(wanted);
    }

    /// A short placeholder for a secret.
    pub(super) fn alias(&self, text: &str) -> String {
        let mut noise = [0; ALIAS_DIGITS / 2];
        self.noise(text.as_bytes(), &mut noise);
        hexadecimal(&noise)
    }

    /// The name of a kernel, an operator or a region.
    pub(super) fn symbol(&self, name: &str) -> String {
        format!("s-{}", self.alias(name))
    }

    /// A dotted name: its numbers stay.
    pub(super) fn part_names(&self, name: &str) -> String {
        let part = |part: &str| {
            let is_number = part.chars().all(|c| c.is_ascii_digit());
            if is_number { part.to_owned() } else { format!("n-{}", self.alias(part)) }
        };
        name.split('.').map(part).collect::<Vec<_>>().join(".")
    }

    /// The name of a machine.
    pub(super) fn host(&mut self, name: &str) -> String {
        let alias = format!("host-{}", self.alias(name));
        if name.len() >= SHORTEST_SECRET
            && !is_common(&name.to_ascii_lowercase())
            && !self.hosts.contains_key(name)
        {
            self.hosts.insert(name.to_owned(), alias.clone());
            self.finders = None;
        }
        alias
    }

    /// A path without the names of its folders.
    pub(super) fn path(&mut self, path: &str) -> String {
        if path.is_empty() || is_code(path) {
            return path.to_owned();
        }
        self.meet_user(path);
        if !path.contains('/') && path.contains('\\') {
            // As Windows writes it.
            return self.path(&path.replace('\\', "/"));
        }
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
        if self.path(path) == path && !path.contains('\\') {
            return path.to_owned();
        }
        let base = if self.files { "" } else { path.rsplit(['/', '\\']).next().unwrap_or("") };
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
        let (stem, ending) = base.rsplit_once('.').unwrap_or((base, ""));
        if stem.is_empty() || is_code(base) {
            return base.to_owned();
        }
        let dot = if ending.is_empty() { "" } else { "." };
        let alias = format!("f-{}{dot}{ending}", self.alias(stem));
        if !ending.is_empty() {
            // Without one, such as `python`, it can be anybody's word.
            self.name(base, &alias);
        }
        alias
    }

    /// A text without paths and names of users.
    pub(super) fn scrub(&mut self, text: &str) -> String {
        let Some(regex) = IN_TEXT.as_ref().filter(|_| text.contains(['/', '\\'])) else {
            return self.named(text);
        };
        let replaced = regex.replace_all(text, |parts: &regex::Captures<'_>| {
            let part = |name| parts.name(name).map_or("", |part| part.as_str());
            format!(
                "{}{}{}{}",
                part("mark"),
                part("before"),
                self.path(part("quoted")),
                self.path(part("bare"))
            )
        });
        let replaced = replaced.into_owned();
        self.named(&replaced)
    }

    /// Collects the paths in a text.
    pub(super) fn meet_in_text(&mut self, text: &str) {
        self.scrub(text);
    }

    /// A text without names of users and machines, and without other names that are replaced. All of them must have been
    /// collected before.
    pub(super) fn named(&mut self, text: &str) -> String {
        let replaced = |_: &str, alias: &str| alias.to_owned();
        self.finders().iter().fold(text.to_owned(), |text, finder| finder.replace(&text, replaced))
    }

    /// The same with replacements of the same length.
    pub(super) fn named_in_place(&mut self, text: &str) -> String {
        let finders = self.finders();
        let replaced = |found: &str, _: &str| self.letters(found, found.len());
        finders.iter().fold(text.to_owned(), |text, finder| finder.replace(&text, replaced))
    }

    /// An automaton that cannot be built replaces nothing. The search of the result needs the same and is an error.
    fn finders(&mut self) -> Rc<[WordFinder]> {
        let finders = self.finders.get_or_insert_with(|| {
            let finders = [(&self.names, false), (&self.hosts, false), (&self.people, true)];
            finders.into_iter().filter_map(|(words, any_case)| WordFinder::new(words, any_case)).collect()
        });
        Rc::clone(finders)
    }

    /// Says that a name is replaced wherever it is a word. Short ones without a mark are everybody's words.
    pub(super) fn name(&mut self, name: &str, alias: &str) {
        let is_own = name.len() >= SHORTEST_NAME || name.contains(['.', '_', ':']);
        let is_new = || name != alias && !self.names.contains_key(name);
        if is_own && name.len() >= SHORTEST_SECRET && is_new() {
            self.finders = None;
            self.names.insert(name.to_owned(), alias.to_owned());
        }
    }

    fn meet_user(&mut self, path: &str) {
        // Inside of a package the same words are folders of the package.
        let outside = path.split("/site-packages/").next().unwrap_or(path);
        let is_absolute = outside.starts_with(['/', '~', '\\']) || outside.get(1..3) == Some(":\\");
        let Some(users) = USER.as_ref().filter(|_| is_absolute) else { return };
        let found: Vec<String> = users
            .captures_iter(outside)
            .filter_map(|parts| Some(parts.get(1).or_else(|| parts.get(2))?.as_str().to_owned()))
            .collect();
        for user in found {
            let alias = format!("user-{}", self.alias(&user));
            if !COMMON_FOLDERS.contains(&user.to_ascii_lowercase().as_str()) {
                self.person(&user, &alias);
            }
        }
    }

    fn person(&mut self, name: &str, alias: &str) {
        let name = name.to_ascii_lowercase();
        if name.len() >= SHORTEST_SECRET && !is_common(&name) && !self.people.contains_key(&name) {
            self.people.insert(name, alias.to_owned());
            self.finders = None;
        }
    }

    fn secret(&mut self, text: &str) {
        // A name of a few letters occurs in every file at random, and identifies nothing.
        if text.len() >= SHORTEST_SECRET && text.chars().any(char::is_alphanumeric) {
            self.folders.insert(text.to_owned());
        }
    }
}

/// True for a word that does not identify anybody.
fn is_common(name: &str) -> bool {
    [&COMMON_USERS[..], &COMMON_WORDS, &PUBLIC].iter().any(|words| words.contains(&name))
}

/// True for a file that Python made up: text in angle brackets that says no place.
fn is_code(path: &str) -> bool {
    path.starts_with('<') && !path.contains(['/', '\\'])
}

fn is_public(path: &str) -> bool {
    path.split_once('/').is_some_and(|(package, _)| PUBLIC.contains(&package))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> WordRedactor {
        WordRedactor::new(b"salt", false)
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
        assert!(words.people.contains_key("alice") && words.folders.contains("/home/alice/secret"));
    }

    #[test]
    fn users_are_met_where_systems_put_them() {
        let mut words = words();
        for (number, folder) in ["/home", "/u", "/nfs", "/nfs/home", "/data/users", "/export/home2", "/Users"]
            .into_iter()
            .enumerate()
        {
            words.path(&format!("{folder}/person{number}/x.py"));
            assert!(words.people.contains_key(&format!("person{number}")), "{folder}");
        }
        words.path(r"C:\Users\windy\x.py");
        words.path("/data/users/models/y.py");
        words.path("/v/lib/python3.12/site-packages/acme/users/service/y.py");
        words.path("/home/kernel/y.py");
        assert_eq!(words.people.len(), 8, "{:?}", words.people);
        assert_eq!(words.named("Windy wrote PERSON3's kernel").find("Windy"), None);
    }

    #[test]
    fn names_of_files_are_replaced_where_they_are_words() {
        let mut words = WordRedactor::new(b"salt", true);
        let path = words.path("/home/alice/train.SECRET.py");
        assert!(!path.contains("SECRET"), "{path}");
        assert_eq!(path.rsplit('.').next(), Some("py"));
        assert!(!words.named("in train.SECRET.py:7").contains("SECRET"));
        assert!(words.path("/usr/bin/python").starts_with("/d-"));
        assert_eq!(words.named("--python is python"), "--python is python");
        assert_eq!(words.path("<string>"), "<string>");
        assert!(!words.path("</home/alice/x>").contains("alice"));
    }

    #[test]
    fn the_longest_word_is_replaced() {
        let mut words = words();
        words.name("model.layers", "n-1");
        words.name("model.layers.0.secret", "n-2");
        assert_eq!(
            words.named("at model.layers.0.secret and model.layers, xmodel.layers"),
            "at n-2 and n-1, xmodel.layers"
        );
        assert_eq!(words.named_in_place("model.layers").len(), "model.layers".len());
    }

    #[test]
    fn one_salt_gives_one_word() {
        assert_eq!(words().path("/a/bcde/f.py"), words().path("/a/bcde/f.py"));
        assert_ne!(words().path("/a/bcde/f.py"), WordRedactor::new(b"other", false).path("/a/bcde/f.py"));
    }

    #[test]
    fn texts_lose_paths_and_people() {
        let mut words = words();
        words.host("alices-laptop");
        words.host("h200");
        assert_eq!(words.named("NVIDIA H200"), "NVIDIA H200");
        words.path("/home/alice/x.py");
        let text =
            words.scrub("cannot open '/home/alice/data/x.bin' on alices-laptop, says alice and/or palice");
        assert!(!text.contains("/home") && !text.contains("alices-laptop"), "{text}");
        assert!(text.contains("and/or palice") && text.contains("x.bin'"), "{text}");
    }
}
