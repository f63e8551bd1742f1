//! Start of the Python side without disturbing the program.

use super::*;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_hidden_sitecustomize_still_runs() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("sitecustomize.py"), "print('hidden one')\nanswer = 42\n").unwrap();
    let mut command = python();
    let paths = [package().join("hook"), folder.path().to_owned()];
    command.env("PYTHONPATH", std::env::join_paths(paths).unwrap()).env(stallmap_config::VARIABLE, "{}");
    command.args(["-c", "import sitecustomize; print(sitecustomize.answer)"]);
    assert_eq!(text(&run(command).stdout), "hidden one\n42\n");
}

#[test]
fn where_nothing_is_recorded_the_package_does_nothing() {
    let code = "import stallmap, sys\n\
        @stallmap.region('a')\n\
        def f(): return 7\n\
        stallmap.start(); stallmap.stop()\n\
        with stallmap.region('b'): print(f())\n\
        print([m for m in sys.modules if m in ('ctypes', 'torch')])";
    let mut command = python();
    command.env("PYTHONPATH", public()).args(["-c", code]);
    let output = run(command);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("7\n[]\n".to_owned(), String::new()));
}

/// A stand-in for PyTorch: the library is looked for before anything of PyTorch is touched.
fn import_torch(library: &Path) -> Output {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("torch.py"), "print('torch runs')\n").unwrap();
    let mut command = python();
    let paths = [package().join("hook"), folder.path().to_owned()];
    command
        .env("PYTHONPATH", std::env::join_paths(paths).unwrap())
        .env(stallmap_config::VARIABLE, "{}")
        .env("STALLMAP_LIBRARY", library)
        .args(["-c", "import torch; print('program ends')"]);
    run(command)
}

#[test]
fn without_the_library_the_program_runs_and_one_line_says_so() {
    let output = import_torch(Path::new("/nowhere/libstallmap_inject.so"));
    assert_eq!(text(&output.stdout), "torch runs\nprogram ends\n");
    let stderr = text(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("are not recorded: failed to load `/nowhere/libstallmap_inject.so`"), "{stderr}");
}

#[test]
fn a_library_of_another_kind_is_refused() {
    let output = import_torch(Path::new("libc.so.6"));
    assert_eq!(text(&output.stdout), "torch runs\nprogram ends\n");
    assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
}

#[test]
fn files_are_named_relative_to_the_longest_root() {
    let code = "import sys, os\n\
        from _stallmap_record._files import Files\n\
        files = Files()\n\
        sys.path[:] = ['/srv/app', '/srv/app/vendor', '/usr/lib/python3', '']\n\
        for f in ['/srv/app/train.py', '/srv/app/vendor/x/y.py', '/opt/z.py', '<string>', os.__file__, 'here.py']:\n\
        \x20   print(files.normalized(f))";
    let mut command = python();
    command.env("PYTHONPATH", package()).args(["-c", code]);
    let output = run(command);
    let expected = "train.py\nx/y.py\n/opt/z.py\n<string>\nos.py\nhere.py\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}
