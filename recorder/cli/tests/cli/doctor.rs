//! Tests of `doctor`: it works on every machine, and its exit code agrees with its output.

use super::run::TestFolder;

#[test]
fn doctor_says_what_can_be_recorded() {
    let place = TestFolder::new();
    let output = place.command(&["doctor", "--json", "--python", "no-such-python"]).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> =
        answer["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    for name in [
        "driver",
        "permission",
        "sanitizer",
        "cupti",
        "counters",
        "nvrtc",
        "nvcc",
        "recorder",
        "disk",
        "python",
        "release",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    for check in answer["checks"].as_array().unwrap() {
        let is_bad = ["missing", "problem"].contains(&check["state"].as_str().unwrap());
        assert_eq!(check["hint"].is_string(), is_bad, "{check}");
    }
    let records = |side: &str| answer["records"][side]["can_record"].as_bool().unwrap();
    let expected = i32::from(!(records("accesses") && records("samples")));
    assert_eq!(output.status.code(), Some(expected));
    assert!(!records("python"));
    let needs =
        |name: &str| answer["records"]["counters"]["blocked_by"].as_array().unwrap().contains(&name.into());
    assert_eq!(records("counters"), !["driver", "devices", "permission", "counters"].into_iter().any(needs));
}

#[test]
fn doctor_survives_a_library_that_is_none() {
    let place = TestFolder::new();
    std::fs::write(place.path("libcupti.so.13"), "no library").unwrap();
    let mut command = place.command(&["doctor", "--json"]);
    let output = command.env("STALLMAP_CUPTI", place.path("libcupti.so.13")).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cupti = answer["checks"].as_array().unwrap().iter().find(|check| check["name"] == "cupti").unwrap();
    // Where the machine has a CUPTI of its own, that one is taken.
    let detail = cupti["detail"].as_str().unwrap();
    assert!(cupti["state"] == "ok" || detail.contains("file too short"), "{detail}");
}
