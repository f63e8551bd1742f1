//! Lines whose text a capture keeps: those of Python stacks, and those of the code of functions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use stallmap_sass::cubin::{Cubin, CubinFunction};
use stallmap_sass::line::LineTable;
use stallmap_schema::tables::python::{PythonFrame, SourceLine};

use super::file::{MAX_TEXT_BYTES, read};

/// Most lines of a capture. More lines have no row, like those of code without a line table.
const MAX_LINES: usize = 1 << 18;
/// Most lines of a file that is stored as a whole.
const MAX_FILE_LINES: u32 = 50_000;
/// Most lines of the decorators of a function.
const MAX_DECORATOR_LINES: usize = 50;

/// Lines by file.
#[derive(Debug, Default)]
pub struct FileLines {
    files: BTreeMap<String, WantedLines>,
    count: usize,
}

/// Lines of one file, in order, and where Python functions must begin in it.
#[derive(Debug, Default)]
struct WantedLines {
    lines: Vec<u32>,
    is_complete: bool,
    functions: BTreeSet<(u32, String)>,
}

impl FileLines {
    /// Adds the lines of Python frames.
    pub fn add_frames<'a>(&mut self, frames: impl IntoIterator<Item = &'a PythonFrame>) {
        for frame in frames {
            self.add_line(&frame.original_file, frame.line);
            if let Some(wanted) = self.files.get_mut(&frame.original_file) {
                wanted.functions.insert((frame.first_line, frame.function.clone()));
            }
        }
    }

    /// Adds every line of a file: one that was generated is gone when the reader asks for it.
    pub fn add_file(&mut self, file: &str) {
        if let Some(wanted) = self.files.get_mut(file) {
            wanted.is_complete = true;
        }
    }

    /// Adds the lines of a cubin's functions, and of the calls by which they were inlined.
    pub fn add_code(&mut self, cubin: &Cubin, bytes: &[u8], is_used: impl Fn(&CubinFunction) -> bool) {
        // A damaged line table has no lines. Its damage is reported by those who show the code.
        let Ok(table) = LineTable::read(bytes, cubin) else { return };
        for (index, section) in cubin.sections.iter().enumerate() {
            for function in section.functions.iter().filter(|function| is_used(function)) {
                let end = function.offset.saturating_add(function.symbol_bytes.max(function.bytes));
                for frame in table.all_frames(index, function.offset..end) {
                    self.add_line(frame.file, frame.line);
                }
            }
        }
    }

    /// Adds a line.
    pub fn add_line(&mut self, file: &str, line: u32) {
        if file.is_empty() || line == 0 || self.count >= MAX_LINES {
            return;
        }
        let wanted = match self.files.get_mut(file) {
            Some(wanted) => wanted,
            None => self.files.entry(file.to_owned()).or_default(),
        };
        if let Err(index) = wanted.lines.binary_search(&line) {
            wanted.lines.insert(index, line);
            self.count += 1;
        }
    }

    /// The lines with their text, by file and line. `candidates` are the paths that a file may have here. A Python file
    /// whose functions begin elsewhere is another version, and gives no text.
    pub fn rows(self, candidates: impl Fn(&str) -> Vec<PathBuf>) -> Vec<SourceLine> {
        self.rows_with(|file, fits| {
            candidates(file).iter().find_map(|path| read(path).filter(|texts| fits(texts)))
        })
    }

    /// The same with the texts of files that are at hand, line by line.
    pub fn rows_of(self, text: impl Fn(&str) -> Option<Vec<String>>) -> Vec<SourceLine> {
        self.rows_with(|file, fits| text(file).filter(|texts| fits(texts)))
    }

    fn rows_with(
        self,
        text: impl Fn(&str, &dyn Fn(&[String]) -> bool) -> Option<Vec<String>>,
    ) -> Vec<SourceLine> {
        let mut rows = Vec::with_capacity(self.count);
        for (file, wanted) in self.files {
            let fits =
                |texts: &[String]| wanted.functions.iter().all(|(line, name)| begins(texts, *line, name));
            let texts = text(&file, &fits).unwrap_or_default();
            let count = u32::try_from(texts.len()).unwrap_or(u32::MAX).min(MAX_FILE_LINES);
            let lines = if wanted.is_complete && count > 0 { (1..=count).collect() } else { wanted.lines };
            rows.extend(lines.into_iter().map(|line| {
                let text = usize::try_from(line).ok().and_then(|line| texts.get(line.checked_sub(1)?));
                SourceLine { file: file.clone(), line, text: text.map(|text| bounded(text)) }
            }));
        }
        rows
    }
}

/// True if a Python function can begin at a line: with `def`, below decorators that begin there.
fn begins(texts: &[String], line: u32, function: &str) -> bool {
    let name = function.rsplit('.').next().unwrap_or(function);
    let Some(first) = usize::try_from(line).ok().and_then(|line| texts.get(line.checked_sub(1)?..)) else {
        return false;
    };
    if name.starts_with('<') {
        return name != "<lambda>" || first.first().is_some_and(|text| text.contains("lambda"));
    }
    let is_decorated = first.first().is_some_and(|text| text.trim_start().starts_with('@'));
    let most = if is_decorated { MAX_DECORATOR_LINES } else { 1 };
    let defines = |text: &String| {
        let text = text.trim_start().trim_start_matches("async").trim_start();
        let rest = text.strip_prefix("def ").and_then(|rest| rest.trim_start().strip_prefix(name));
        rest.is_some_and(|rest| rest.trim_start().starts_with(['(', '[']))
    };
    first.iter().take(most).any(defines)
}

/// The text without spaces at its end, and with an ellipsis for what is too long.
fn bounded(text: &str) -> String {
    let text = text.trim_end();
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    let end = (0..=MAX_TEXT_BYTES - '…'.len_utf8()).rev().find(|end| text.is_char_boundary(*end));
    format!("{}…", text.get(..end.unwrap_or(0)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stallmap_schema::id::FrameId;

    fn frame(file: &str, line: u32) -> PythonFrame {
        PythonFrame {
            frame_id: FrameId(u64::from(line)),
            file: "short.py".into(),
            original_file: file.into(),
            function: "<module>".into(),
            first_line: 1,
            line,
        }
    }

    #[test]
    fn functions_begin_with_their_definition() {
        let texts =
            ["@torch.compile(", "    mode=None)", "async def f (x):", "  class A:", "    def g[T](x): pass"];
        let texts = texts.map(str::to_owned);
        let begins = |line, name| begins(&texts, line, name);
        assert!(begins(1, "f") && begins(3, "f") && begins(5, "f.<locals>.A.g"));
        assert!(!begins(4, "f") && !begins(2, "f") && !begins(3, "ff") && !begins(9, "f") && !begins(0, "f"));
        assert!(begins(1, "<module>") && !begins(3, "f.<locals>.<lambda>"));
    }

    #[test]
    fn another_version_of_a_file_gives_no_text() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.py"), "\ndef f():\n    pass\n").unwrap();
        let text = |first_line| {
            let mut lines = FileLines::default();
            lines.add_frames(&[PythonFrame { function: "f".into(), first_line, ..frame("a.py", 3) }]);
            lines.rows(|name| vec![folder.path().join(name)]).pop().unwrap().text
        };
        assert_eq!((text(2).as_deref(), text(1)), (Some("    pass"), None));
    }

    #[test]
    fn each_line_is_one_row_and_unknown_text_is_null() {
        let folder = tempfile::tempdir().unwrap();
        let long = "é".repeat(MAX_TEXT_BYTES);
        std::fs::write(folder.path().join("a.py"), format!("one \n  two\n{long}\n")).unwrap();
        let mut lines = FileLines::default();
        let frames = [
            ("b.py", 1),
            ("a.py", 2),
            ("a.py", 1),
            ("a.py", 2),
            ("a.py", 3),
            ("a.py", 9),
            ("", 1),
            ("a.py", 0),
        ];
        lines.add_frames(&frames.map(|(file, line)| frame(file, line)));
        let rows = lines.rows(|name| vec![folder.path().join(name)]);
        let lines: Vec<_> = rows.iter().map(|row| (row.file.as_str(), row.line)).collect();
        assert_eq!(lines, [("a.py", 1), ("a.py", 2), ("a.py", 3), ("a.py", 9), ("b.py", 1)]);
        let texts: Vec<_> = rows.iter().map(|row| row.text.as_deref()).collect();
        assert_eq!((texts[0], texts[1], texts[3], texts[4]), (Some("one"), Some("  two"), None, None));
        let cut = texts[2].unwrap();
        assert!(cut.len() <= MAX_TEXT_BYTES && cut.ends_with("é…"), "{}", cut.len());
    }
}
