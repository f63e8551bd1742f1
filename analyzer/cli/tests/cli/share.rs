//! Sharing of captures: parts, identities, and redaction.

use std::fs;

use crate::command::CommandFolder;

const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/inference_views.stallmap");

#[test]
fn a_part_is_sound_and_says_what_it_lacks() {
    let place = CommandFolder::new();
    let ran = place.run(&["pack", BUNDLED, "part.stallmap", "--without", "accesses,code"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.check("pack_without");
    assert!(fs::metadata(place.path("part.stallmap")).unwrap().len() < fs::metadata(BUNDLED).unwrap().len());
    assert_eq!(place.run(&["check", "part.stallmap"]).code, Some(0));
    place.run(&["report", "part.stallmap", "--section", "coverage"]).check("pack_without_coverage");
    let report = place.run(&["report", "part.stallmap"]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);
}

#[test]
fn launches_and_tables_are_picked() {
    let place = CommandFolder::new();
    place.run(&["pack", BUNDLED, "one.stallmap", "--launches", "gather"]).check("pack_launches");
    place
        .run(&["pack", BUNDLED, "two.stallmap", "--launches", "0-1", "--only", "pc_sample"])
        .check("pack_only");
    for part in ["one.stallmap", "two.stallmap"] {
        let check = place.run(&["check", part]);
        assert_eq!(check.code, Some(0), "{}", check.stdout);
        assert_eq!(place.run(&["report", part]).code, Some(0));
    }
    place.run(&["pack", BUNDLED, "x.stallmap", "--launches", "nothing"]).check("pack_no_launch");
    place.run(&["pack", BUNDLED, "x.stallmap", "--only", "launches"]).check("pack_no_table");
    place.run(&["pack", BUNDLED, "one.stallmap"]).check("pack_exists");
}

/// A capture of a program whose file is here, with the text of its lines.
#[test]
fn lines_get_their_text_from_files_of_the_same_version() {
    let place = CommandFolder::new();
    let step = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/transformer_step.stallmap");
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/programs");
    let packed = place.run(&["pack", step, "text.stallmap", "--source-root", programs]);
    packed.expect_ok();
    assert!(packed.stderr.starts_with("text of 21 of 60 source lines\n"), "{}", packed.stderr);
    place.run(&["check", "text.stallmap"]).expect_ok();
    place.run(&["text.stallmap"]).check("verdict_with_text");
    let why = place.run(&["why", "text.stallmap", "2"]).stdout;
    assert!(why.contains("transformer_step.py:81 train_step: optimizer.step()"), "{why}");
    let texts = |capture: &str| {
        let sql = "SELECT count(*), count(text) FROM source_line";
        place.run(&["sql", capture, "--format", "csv", "-c", sql]).stdout.lines().nth(1).map(str::to_owned)
    };
    assert_eq!(texts("text.stallmap").as_deref(), Some("60,21"));
    place.run(&["redact", "text.stallmap", "sent.stallmap"]).expect_ok();
    assert_eq!(texts("sent.stallmap").as_deref(), Some("0,0"));
    // This capture is of an earlier version of its program.
    let old = place.run(&["pack", BUNDLED, "old.stallmap", "--source-root", programs]);
    assert!(old.stderr.starts_with("text of 0 of 13 source lines\n"), "{}", old.stderr);
}

#[test]
fn a_part_keeps_the_time_of_all_work() {
    let place = CommandFolder::new();
    let times = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/time_truth.stallmap");
    place.run(&["pack", times, "part.stallmap", "--launches", "0-2"]).expect_ok();
    assert_eq!(place.run(&["check", "part.stallmap"]).code, Some(0));
    let busy = |capture: &str, sql: &str| {
        let ran = place.run(&["sql", capture, "--format", "csv", "-c", sql]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    let device = "SELECT busy_ns, idle_ns FROM device_time";
    assert_eq!(busy("part.stallmap", device), busy(times, device));
    let launches = "SELECT count(kernel_id), count(*) > 3 FROM gpu_activity";
    assert_eq!(busy("part.stallmap", launches).lines().nth(1), Some("3,true"));
}

#[test]
fn two_people_compare_what_they_hold() {
    let place = CommandFolder::new();
    place.run(&["id", "tiny.stallmap"]).expect_ok();
    place.run(&["unpack", "tiny.stallmap", "tiny"]).expect_ok();
    place.run(&["pack", "tiny", "again.stallmap"]).expect_ok();
    let same = place.run(&["id", "tiny.stallmap", "tiny", "again.stallmap"]);
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    assert!(same.stdout.ends_with("\nThe captures are equal.\n"), "{}", same.stdout);
    place.run(&["pack", "tiny.stallmap", "part.stallmap", "--without", "samples"]).expect_ok();
    let differ = place.run(&["id", "tiny.stallmap", "part.stallmap"]);
    assert_eq!(differ.code, Some(1), "{}", differ.stderr);
    let summary: Vec<_> =
        differ.stdout.lines().skip_while(|line| *line != "The captures differ:").skip(1).collect();
    assert_eq!(summary.len(), 3, "{summary:?}");
    assert!(
        summary[0].starts_with("  table launch_run: ") && summary[2].starts_with("  table pc_sample: "),
        "{summary:?}"
    );
}

#[test]
fn redact_says_what_goes_and_what_stays() {
    let place = CommandFolder::new();
    let known = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/blame_replays.stallmap");
    place.run(&["redact", known, "a.stallmap", "--salt", "x"]).check("redact");
    let check = place.run(&["check", "a.stallmap"]);
    assert_eq!(check.code, Some(0), "{}", check.stdout);
    place.run(&["redact", known, "a.stallmap"]).check("redact_exists");
    place
        .run(&["redact", known, "b.stallmap", "--salt", "x", "--also", "symbols,names,files,times"])
        .expect_ok();
    let check = place.run(&["check", "b.stallmap"]);
    assert_eq!(check.code, Some(0), "{}", check.stdout);
    assert_eq!(place.run(&["report", "b.stallmap"]).code, Some(0));
    assert_eq!(place.run(&["source", "b.stallmap"]).code, Some(0));
    // One salt, one result.
    place.run(&["redact", known, "c.stallmap", "--salt", "x"]).expect_ok();
    assert_eq!(place.run(&["id", "a.stallmap", "c.stallmap"]).code, Some(0));
    place.run(&["redact", known, "d.stallmap"]).expect_ok();
    assert_eq!(place.run(&["id", "a.stallmap", "d.stallmap"]).code, Some(1));
}
