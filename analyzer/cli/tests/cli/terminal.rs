//! The interactive shell: a script types into a pseudo-terminal.

use std::process::Command;

use crate::command::CommandFolder;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/shell-session.py");
const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/inference_views.stallmap");

#[cfg(target_os = "linux")]
#[test]
fn a_person_at_the_shell() {
    let place = CommandFolder::new();
    let python = std::env::var("STALLMAP_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let ran = Command::new(python)
        .args([SCRIPT, env!("CARGO_BIN_EXE_stallmap"), CAPTURE])
        .arg(place.path("."))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
