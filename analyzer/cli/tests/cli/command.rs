//! Runs the program as a user does.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use stallmap_write::CaptureForm;
use tempfile::TempDir;

use crate::tiny;

/// A folder to work in, with the small capture `tiny.stallmap` in it.
pub(crate) struct CommandFolder(TempDir);

impl CommandFolder {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        tiny::write(&folder.path().join("tiny.stallmap"), CaptureForm::File).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Runs `stallmap` in the folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> CommandRun {
        self.run_with_input(arguments, "")
    }

    /// The same with this text on its standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> CommandRun {
        // The test of prepared imports asks for them. To prepare takes longer than the rest of an import.
        let is_import = arguments.first() == Some(&"import") && !arguments.contains(&"--help");
        let mut child = command(self.0.path())
            .args(arguments)
            .args(is_import.then_some("--no-prepare"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may have left before it read everything.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        CommandRun::new(&child.wait_with_output().unwrap())
    }
}

/// The results that the programs of this run keep for the next question, as a user's do. A run begins without any.
pub(crate) static KEPT_RESULTS: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("results");
    let removed = std::fs::remove_dir_all(&folder);
    assert!(removed.is_ok() || !folder.exists(), "{}: {removed:?}", folder.display());
    folder
});

/// The program, free of the developer's environment.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stallmap"));
    command
        .current_dir(folder)
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR")
        .env("RUST_BACKTRACE", "0")
        .env_remove("STALLMAP_LIBRARY")
        .env("STALLMAP_CACHE", &*KEPT_RESULTS);
    command
}

/// Result of a run.
pub(crate) struct CommandRun {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

impl CommandRun {
    fn new(output: &Output) -> Self {
        Self {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
        }
    }

    /// All output, for a snapshot. Varying parts are replaced.
    pub(crate) fn snapshot(&self) -> String {
        let code = self.code.map_or_else(|| "killed".to_owned(), |code| code.to_string());
        let mut text = format!("exit code: {code}\n");
        for (name, content) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !content.is_empty() {
                write!(text, "----- {name}\n{}", stable(content)).unwrap();
            }
        }
        text
    }

    /// Compares everything with the snapshot of a name.
    #[track_caller]
    pub(crate) fn check(&self, name: &str) {
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_snapshot_path("../snapshots");
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, self.snapshot()));
    }

    /// A successful run.
    #[track_caller]
    pub(crate) fn expect_ok(&self) -> &Self {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self
    }

    /// An error as every error is: no panic, the code, an `error:` line.
    #[track_caller]
    pub(crate) fn expect_error(&self, code: i32) -> &Self {
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
        self
    }
}

fn stable(text: &str) -> String {
    let line = |line: &str| {
        if line.starts_with("created  ") { "created     [NOW]\n".to_owned() } else { format!("{line}\n") }
    };
    text.lines().map(line).collect()
}
