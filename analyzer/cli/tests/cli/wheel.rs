//! The wheel of the programs under test, by `scripts/wheel` and by `pip install` of the clone.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::python::{python, skipped};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A folder of the programs under test and the library, where cargo has built the recorder too. Tests have the library
/// among their dependencies.
fn binaries(folder: &Path) -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_stallmap")).parent()?;
    let parts = ["stallmap", "stallmap-record", "deps/libstallmap_inject.so"].map(|part| built.join(part));
    let binaries = folder.join("binaries");
    std::fs::create_dir(&binaries).unwrap();
    for part in &parts {
        std::os::unix::fs::symlink(part, binaries.join(part.file_name()?)).unwrap();
    }
    parts.iter().all(|part| part.is_file()).then_some(binaries)
}

/// The output of a successful command.
#[track_caller]
fn text(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

fn build(binaries: &Path, notices: &Path, folder: &Path) -> PathBuf {
    text(python().arg(root().join("scripts/notices")).arg("--output").arg(notices));
    let mut command = python();
    command.arg(root().join("scripts/wheel")).arg("--binaries").arg(binaries).arg("--output").arg(folder);
    text(command.args(["--level", "0", "--strip", "--notices"]).arg(notices));
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let wheels: Vec<PathBuf> = entries.collect();
    let [wheel] = &wheels[..] else { panic!("{wheels:?}") };
    wheel.clone()
}

/// An environment with stallmap and nothing else, installed from the clone and the programs under test.
fn installed(binaries: &Path, notices: &Path, folder: &Path) -> PathBuf {
    let environment = folder.join("environment");
    text(python().args(["-m", "venv"]).arg(&environment));
    let bin = environment.join("bin");
    let setting = |name: &str, value: &Path| format!("--config-settings={name}={}", value.display());
    text(
        Command::new(bin.join("pip"))
            .args(["install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"])
            .args(["--config-settings=level=0", "--config-settings=strip="])
            .args([setting("binaries", binaries), setting("notices", notices)])
            .arg(root()),
    );
    bin
}

/// A program of the environment, which finds no other stallmap.
fn program(bin: &Path, name: &str) -> Command {
    let mut command = Command::new(bin.join(name));
    command
        .env_remove("STALLMAP_PROGRAM")
        .env_remove("PYTHONPATH")
        .env("PATH", bin)
        .env("STALLMAP_CACHE", "off");
    command.current_dir(bin);
    command
}

#[test]
fn a_fresh_environment_has_every_part() {
    let folder = TempDir::new().unwrap();
    let Some(binaries) = binaries(folder.path()) else { return skipped(1, "the recorder was not built") };
    if python().args(["-c", "import venv, ensurepip"]).status().map_or(true, |status| !status.success()) {
        return skipped(1, "no Python with venv");
    }
    let notices = folder.path().join("notices");
    text(python().arg(root().join("scripts/notices")).arg("--output").arg(&notices));
    let version = env!("CARGO_PKG_VERSION");
    let bin = installed(&binaries, &notices, folder.path());

    // The analyzer, by its name and as a module.
    let capture = root().join("testdata/inference_views.stallmap");
    let screen = text(program(&bin, "stallmap").arg(&capture));
    assert!(screen.starts_with("inference_views.py · NVIDIA H200"), "{screen}");
    assert_eq!(text(program(&bin, "python").args(["-m", "stallmap"]).arg(&capture)), screen);

    // The recorder with its library, on any machine.
    let doctor = program(&bin, "stallmap-record")
        .args(["doctor", "--python"])
        .arg(bin.join("python"))
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&doctor.stdout);
    let parts =
        format!("stallmap-record {version}, library {version}, stallmap {version}, Python package {version}");
    assert!(report.contains(&format!("ok       release     {parts}")), "{report}");
    assert!(report.contains("lib/stallmap/libstallmap_inject.so"), "{report}");

    // The package, which needs nothing else for a statement, and which names what it needs for its rows.
    let code = "import stallmap, sys\n\
        with stallmap.region('a'): pass\n\
        result = stallmap.open(sys.argv[1]).sql('SELECT * FROM launch')\n\
        print(stallmap.__version__, len(result))\n\
        try: result.arrow()\n\
        except stallmap.Error as error: print(error.hint)\n";
    let printed = text(program(&bin, "python").args(["-c", code]).arg(&capture));
    assert_eq!(printed, format!("{version} 3\npip install pyarrow\n"));

    // The licenses of linked packages, and what the programs consist of.
    let code = "import importlib.metadata as metadata\n\
        print(sorted(file.name for file in metadata.files('stallmap') if file.parent.name in ('licenses', 'sboms')))\n";
    let printed = text(program(&bin, "python").args(["-c", code]));
    assert_eq!(printed, "['LICENSE', 'NOTICE.txt', 'sbom.cdx.json']\n");

    // Every file is as RECORD lists it, and all of it goes again.
    text(Command::new(bin.join("pip")).args(["check", "--disable-pip-version-check"]));
    text(Command::new(bin.join("pip")).args(["uninstall", "--quiet", "--yes", "stallmap"]));
    assert!(!bin.join("stallmap").exists() && !bin.join("../lib/stallmap/libstallmap_inject.so").exists());
}

#[test]
fn a_wheel_is_the_same_bytes_again_and_promises_no_older_system() {
    let folder = TempDir::new().unwrap();
    let Some(binaries) = binaries(folder.path()) else { return skipped(1, "the recorder was not built") };
    let folder = TempDir::new().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let notices = folder.path().join("notices");
    let first = build(&binaries, &notices, &one);
    let second = build(&binaries, &notices, &two);
    assert_eq!(first.file_name(), second.file_name());
    let name = first.file_name().unwrap().to_string_lossy().into_owned();
    let version = env!("CARGO_PKG_VERSION");
    assert!(name.starts_with(&format!("stallmap-{version}-py3-none-manylinux_2_")), "{name}");
    assert!(std::fs::read(first).unwrap() == std::fs::read(second).unwrap(), "the bytes differ");
    let mut command = python();
    command.arg(root().join("scripts/wheel")).arg("--binaries").arg(&binaries).arg("--output").arg(&one);
    let refused = command.args(["--platform", "manylinux_2_5_x86_64"]).output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && message.contains("promises 2.5"), "{message}");
}
