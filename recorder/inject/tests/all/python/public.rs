//! The name `stallmap` in a recorded program: a module of its own, an installed package of another release, none.

use std::fs;

use stallmap_schema::tables::python::PythonFrame;
use stallmap_schema::tables::tensor::Op;
use stallmap_schema::word::OpKind;

use super::*;

const PROGRAM: &str = "import stallmap\nprint(stallmap.__version__)\nimport torch\ntorch.ones(4).add(1)\n";
const REGIONS: &str = "@stallmap.region('outer')\ndef work():\n    with stallmap.region('inner'):\n        \
                       torch.ones(4).cosh()\nwork()\n";

/// The recorder's folder as `stallmap-record` unpacks it, with the installed module `stallmap` of a test next to it.
struct ModuleFolders(TempDir);

impl ModuleFolders {
    fn new() -> Self {
        let folders = Self(TempDir::new().unwrap());
        for (from, package) in [(package(), "hook"), (package(), "_stallmap_record"), (public(), "stallmap")]
        {
            copy(&from.join(package), &folders.recorder().join(package));
        }
        fs::create_dir(folders.installed()).unwrap();
        folders
    }

    fn recorder(&self) -> PathBuf {
        self.0.path().join("recorder")
    }

    fn installed(&self) -> PathBuf {
        self.0.path().join("installed")
    }

    /// Records a program that finds the installed folder before the recorder's, as it finds site-packages.
    fn record(&self, program: &str) -> Option<PythonRecording> {
        let script = self.0.path().join("program.py");
        fs::write(&script, program).unwrap();
        let folders = [&*self.recorder().join("hook"), &*self.installed()];
        record_under(&script, PassInstrument::Accesses, LaunchSelection::default(), &folders)
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

fn ops(recording: &PythonRecording) -> Vec<(OpKind, String)> {
    recording.rows().into_iter().map(|op: Op| (op.kind, op.name)).collect()
}

/// Every op has a stack, and no stack has a frame of stallmap's.
fn assert_stacks(recording: &PythonRecording) {
    assert!(recording.rows().iter().all(|op: &Op| op.pystates_hash.is_some()));
    let frames: Vec<PythonFrame> = recording.rows();
    assert!(frames.iter().any(|frame| frame.file == "program.py"), "{frames:?}");
    let folder = |frame: &PythonFrame| frame.original_file.contains("/recorder/");
    assert!(
        !frames.iter().any(|frame| folder(frame) || frame.original_file.contains("_forward.py")),
        "{frames:?}"
    );
}

/// The version of the public package.
fn version() -> String {
    let text = fs::read_to_string(public().join("stallmap/_version.py")).unwrap();
    text.split('"').rev().nth(1).unwrap().to_owned()
}

#[test]
fn a_module_of_the_programs_own_stays_and_everything_is_recorded() {
    let folders = ModuleFolders::new();
    fs::write(folders.installed().join("stallmap.py"), "__version__ = 'of the program'\n").unwrap();
    let Some(recording) = folders.record(PROGRAM) else { return };
    assert_eq!(recording.stdout(), "of the program\n");
    assert!(ops(&recording).contains(&(OpKind::Torch, "aten::add.Tensor".to_owned())));
    assert_stacks(&recording);
}

#[test]
fn an_installed_package_of_another_release_gives_way() {
    let folders = ModuleFolders::new();
    let other = folders.installed().join("stallmap");
    copy(&public().join("stallmap"), &other);
    let text = fs::read_to_string(other.join("_version.py")).unwrap();
    fs::write(other.join("_version.py"), text.replace(&version(), "0.0.1")).unwrap();
    fs::write(other.join("_forward.py"), "raise ImportError('of another release')\n").unwrap();
    let Some(recording) = folders.record(&format!("{PROGRAM}{REGIONS}")) else { return };
    assert_eq!(recording.stdout(), format!("{}\n", version()));
    for name in ["outer", "inner"] {
        assert!(ops(&recording).contains(&(OpKind::Region, name.to_owned())), "{:?}", ops(&recording));
    }
    assert_stacks(&recording);
}

#[test]
fn an_installed_package_of_this_release_is_imported_and_its_regions_are_recorded() {
    let folders = ModuleFolders::new();
    copy(&public().join("stallmap"), &folders.installed().join("stallmap"));
    let program = format!("{PROGRAM}{REGIONS}print(stallmap.__file__)\n");
    let Some(recording) = folders.record(&program) else { return };
    assert!(recording.stdout().contains("/installed/stallmap/__init__.py"), "{}", recording.stdout());
    assert!(ops(&recording).contains(&(OpKind::Region, "inner".to_owned())));
    assert_stacks(&recording);
}

#[test]
fn without_an_installed_package_the_recorders_copy_is_found() {
    let folders = ModuleFolders::new();
    let Some(recording) = folders.record(&format!("{PROGRAM}{REGIONS}")) else { return };
    assert_eq!(recording.stdout(), format!("{}\n", version()));
    assert!(ops(&recording).contains(&(OpKind::Region, "outer".to_owned())));
    assert_stacks(&recording);
}

#[test]
fn a_hook_that_fails_leaves_its_exception() {
    let folders = ModuleFolders::new();
    // No PyTorch: the hooks miss all of its parts.
    fs::write(folders.installed().join("torch.py"), "").unwrap();
    let recording = TempDir::new().unwrap();
    let config = Config { directory: recording.path().to_owned(), ..Config::default() };
    let mut command = python();
    command
        .env("PYTHONPATH", search_path(&[&folders.recorder().join("hook"), &folders.installed()]))
        .env(stallmap_config::VARIABLE, config.to_json().unwrap())
        .env("STALLMAP_LIBRARY", library())
        .args(["-c", "import torch\nprint('program ends')"]);
    let output = run(command);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "program ends\n");
    let names: Vec<PathBuf> =
        fs::read_dir(recording.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = &names[..] else { panic!("{names:?}") };
    let left = fs::read_to_string(file).unwrap();
    assert!(left.contains(r#""reason": "Python hooks of torch""#) && left.contains("Error: "), "{left}");
}
