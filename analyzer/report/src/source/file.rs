//! The text of source lines: as the capture has it, else from files on this machine.

use std::collections::BTreeMap;
use std::path::Path;

use stallmap_write::source::{candidates, read};

use super::listing::ListingLine;

/// The text of source lines, by the compiler's name of their file.
#[derive(Debug, Default)]
pub(super) struct SourceTexts {
    files: BTreeMap<String, Vec<String>>,
    /// Lines that the capture holds: they are those that ran.
    recorded: BTreeMap<(String, u32), String>,
}

impl SourceTexts {
    /// The recorded text of lines, and those of their files that are here or below a folder.
    pub(super) fn from_lines(lines: &[ListingLine], root: Option<&Path>) -> Self {
        let recorded =
            lines.iter().filter_map(|line| Some(((line.file.clone(), line.number), line.text.clone()?)));
        let names = lines.iter().map(|line| line.file.as_str());
        Self { recorded: recorded.collect(), ..Self::read(names, root) }
    }

    fn read<'a>(names: impl IntoIterator<Item = &'a str>, root: Option<&Path>) -> Self {
        let mut files = BTreeMap::new();
        for name in names {
            if !files.contains_key(name)
                && let Some(lines) = candidates(name, root).iter().find_map(|path| read(path))
            {
                files.insert(name.to_owned(), lines);
            }
        }
        Self { files, recorded: BTreeMap::new() }
    }

    /// A line's text.
    pub(super) fn line(&self, file: &str, line: u32) -> Option<&str> {
        let recorded = self.recorded.get(&(file.to_owned(), line));
        let found = || self.files.get(file)?.get(usize::try_from(line).ok()?.checked_sub(1)?);
        recorded.or_else(found).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_below_the_folder_by_the_end_of_their_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("kernels")).unwrap();
        std::fs::write(folder.path().join("kernels/a.cu"), "one\ntwo\n").unwrap();
        let name = "/home/other/project/kernels/a.cu";
        let files = SourceTexts::read([name], Some(folder.path()));
        assert_eq!(files.line(name, 2), Some("two"));
        assert_eq!((files.line(name, 0), files.line(name, 3)), (None, None));
    }

    #[test]
    fn what_is_no_source_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("id_rsa"), "secret").unwrap();
        std::fs::write(folder.path().join("a.txt"), "secret").unwrap();
        let files = SourceTexts::read(["id_rsa", "a.txt", "../a.txt", "/etc/hostname"], Some(folder.path()));
        assert!(files.files.is_empty());
    }
}
