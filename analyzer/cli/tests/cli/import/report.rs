//! A report of Nsight Compute, next to the raw page that ncu prints of it.

use serde_json::Value;

use super::{number, rows};
use crate::command::CommandFolder;

fn bundled(name: &str) -> String {
    format!("{}/../../testdata/ncu/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn imported() -> CommandFolder {
    let place = CommandFolder::new();
    for (file, capture) in [("pipe.ncu-rep.gz", "report.stallmap"), ("pipe.csv.gz", "page.stallmap")] {
        place.run(&["import", &bundled(file), "-o", capture]).expect_ok();
        place.run(&["check", capture]).expect_ok();
    }
    place
}

#[test]
fn a_report_has_the_counters_of_its_page() {
    let place = imported();
    let counters = "SELECT kernel_id, metric, value, unit FROM counter ORDER BY kernel_id, metric";
    let of_report = rows(&place, "report.stallmap", counters);
    let of_page = rows(&place, "page.stallmap", counters);
    assert_eq!(of_page.len(), 4414);
    assert_eq!(of_report.len(), of_page.len());
    let mut without_unit = 0;
    for (found, expected) in of_report.iter().zip(&of_page) {
        assert_eq!((&found["kernel_id"], &found["metric"]), (&expected["kernel_id"], &expected["metric"]));
        let value = |row: &Value| row["value"].as_f64().unwrap();
        // ncu prints two decimals.
        let difference = (value(found) - value(expected)).abs();
        assert!(difference <= 0.005_001_f64.max(1e-9 * value(expected).abs()), "{found} {expected}");
        let units = [found, expected].map(|row| row["unit"].as_str().unwrap());
        assert!(units[0] == units[1] || units.contains(&""), "{found} {expected}");
        without_unit += usize::from(units[0].is_empty() && !units[1].is_empty());
    }
    assert!(without_unit < 260, "the rules of units miss {without_unit} metrics");
    let launches = "SELECT kernel_id, ordinal, grid_x, grid_y, grid_z, block_x, block_y, block_z, register_count, \
         static_shared_bytes, dynamic_shared_bytes, device_id FROM launch ORDER BY kernel_id";
    let of_report = rows(&place, "report.stallmap", launches);
    assert_eq!(of_report, rows(&place, "page.stallmap", launches));
    assert_eq!((of_report.len(), &of_report[0]["register_count"]), (2, &Value::from(32)));
    let time = "SELECT CAST(round(sum(time_ns)) AS BIGINT) AS n FROM launch_time WHERE is_measured";
    assert_eq!(number(&place, "report.stallmap", time), number(&place, "page.stallmap", time));
}

#[test]
fn samples_of_a_report_stand_at_its_instructions() {
    let place = imported();
    let one = |sql: &str| number(&place, "report.stallmap", sql);
    // The report's own sums per reason.
    let wrong = "WITH s AS (SELECT kernel_id, 'smsp__pcsamp_warps_issue_stalled_' || stall_reason AS metric, \
         CAST(sum(samples) AS DOUBLE) AS n, CAST(sum(samples_not_issued) AS DOUBLE) AS m FROM pc_sample GROUP BY 1, 2), \
         c AS (SELECT kernel_id, metric, value FROM counter WHERE metric LIKE 'smsp__pcsamp_warps_issue_stalled_%') \
         SELECT count(*) AS n FROM c LEFT JOIN s ON s.kernel_id = c.kernel_id AND (s.metric = c.metric \
         OR s.metric || '_not_issued' = c.metric) WHERE c.value <> coalesce(CASE WHEN s.metric = c.metric THEN n ELSE m END, 0)";
    assert_eq!(one(wrong), 0);
    assert_eq!(one("SELECT sum(samples) AS n FROM pc_sample"), 2671 + 2708);
    assert_eq!(one("SELECT sum(sample_count) AS n FROM launch_run"), 2671 + 2708);
    assert_eq!(one("SELECT sampling_period_cycles AS n FROM run WHERE instrument = 'pc_samples'"), 2048);
    // A line of the source page: 34 samples of no_instructions at the first instruction.
    let first = "SELECT samples AS n FROM pc_sample WHERE kernel_id = 0 AND pc = 0";
    assert_eq!(one(first), 34);
    let code = "SELECT code_bytes AS n FROM function WHERE is_kernel AND name = '_Z4pipePKfS0_Pfi'";
    assert_eq!(one(code), 496 * 16);
    let ran = place.run(&["source", "report.stallmap"]);
    ran.expect_ok();
    for text in ["pipe(float const*", "fsdpish.cu:18", "wait(full+s", "UBLKCP", "long_scoreboard"] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    let device =
        rows(&place, "report.stallmap", "SELECT name, l2_bytes, multiprocessor_count AS n FROM device");
    assert_eq!((&device[0]["name"], &device[0]["n"]), (&"NVIDIA H100 80GB HBM3".into(), &132.into()));
    place.run(&["import", &bundled("pipe.ncu-rep.gz"), "-o", "x.stallmap"]).check("import_report");
    place.run(&["report", "report.stallmap", "--all"]).expect_ok();
}
