//! Pages of Nsight Compute: units and numbers as it prints them.

use super::number;
use crate::command::CommandFolder;

#[test]
fn counters_lose_the_scale_of_their_units() {
    let place = CommandFolder::new();
    let page = "==PROF== Connected to process 7\n\
        \"ID\",\"Process ID\",\"Kernel Name\",\"Stream\",\"Block Size\",\"Grid Size\",\"Device\",\"dram__bytes_read.sum\",\
        \"gpu__time_duration.sum\",\"sm__throughput.avg.pct_of_peak_sustained_elapsed\",\"odd\"\n\
        \"\",\"\",\"\",\"\",\"\",\"\",\"\",\"Kbyte\",\"us\",\"%\",\"Mwatt\"\n\
        \"0\",\"7\",\"k(float*)\",\"7\",\"(256, 1, 1)\",\"(64, 1, 1)\",\"0\",\"1,234.5\",\"12.5\",\"33.25\",\"1\"\n\
        \"1\",\"7\",\"k(float*)\",\"7\",\"(256, 1, 1)\",\"(64, 1, 1)\",\"0\",\"1,000\",\"10\",\"n/a\",\"1\"\n\
        the end of the program\n==PROF== Disconnected from process 7\n";
    place.file("page.csv", page);
    place.run(&["import", "page.csv", "-o", "x.stallmap"]).expect_ok();
    place.run(&["check", "x.stallmap"]).expect_ok();
    let bytes = "SELECT CAST(sum(value) AS BIGINT) AS n FROM counter WHERE metric = 'dram__bytes_read.sum' AND unit = 'byte'";
    assert_eq!(number(&place, "x.stallmap", bytes), 2_234_500);
    let time = "SELECT CAST(sum(duration_ns) AS BIGINT) AS n FROM launch_duration";
    assert_eq!(number(&place, "x.stallmap", time), 22_500);
    let lost = "SELECT lost_count AS n FROM loss WHERE reason = 'metrics with an unknown scaled unit' AND detail = 'Mwatt'";
    assert_eq!(number(&place, "x.stallmap", lost), 2);
    let lost = "SELECT lost_count AS n FROM loss WHERE reason = 'lines that are not of the page'";
    assert_eq!(number(&place, "x.stallmap", lost), 2);
    assert_eq!(number(&place, "x.stallmap", "SELECT count(*) AS n FROM launch"), 2);
    // The page of details, which is printed by default: a line for each metric, and for each rule.
    let head = "\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"Device\",\"Section Name\",\
        \"Metric Name\",\"Metric Unit\",\"Metric Value\",\"Rule Name\"\n";
    let line = |id: u32, name: &str, unit: &str, value: &str| {
        format!(
            "\"{id}\",\"7\",\"k(float*)\",\"(256, 1, 1)\",\"(64, 1, 1)\",\"0\",\"S\",\"{name}\",\"{unit}\",\"{value}\",\"\"\n"
        )
    };
    let lines = [
        line(0, "Duration", "us", "12.5"),
        line(0, "dram__bytes_read.sum", "Kbyte", "1,234.5"),
        line(0, "", "", ""),
        line(1, "Duration", "us", "10"),
        line(1, "dram__bytes_read.sum", "Kbyte", "1,000"),
    ];
    place.file("details.csv", format!("{head}{}", lines.concat()));
    place.run(&["import", "details.csv", "-o", "d.stallmap"]).expect_ok();
    assert_eq!(
        (number(&place, "d.stallmap", bytes), number(&place, "d.stallmap", time)),
        (2_234_500, 22_500)
    );
    let pages = page.lines().filter(|line| !line.starts_with("\"\"")).collect::<Vec<_>>().join("\n");
    place.file("no_units.csv", pages);
    place.run(&["import", "no_units.csv", "-o", "y.stallmap"]).expect_error(5);
}

#[test]
fn numbers_of_a_page_are_read_in_its_locale() {
    let page = |rows: &[&str]| {
        let head = "\"ID\",\"Process ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"dram__bytes.sum\",\"sm__throughput\"\n\
            \"\",\"\",\"\",\"ns\",\"byte\",\"%\"\n";
        format!("{head}{}\n", rows.join("\n"))
    };
    let place = CommandFolder::new();
    let european = r#""0","7","k(int*)","117.344","27.595.520","42,50""#;
    let english = r#""1","7","k(int*)","117,344","27,595,520","42.50""#;
    let values = "SELECT CAST(sum(value * 100) AS BIGINT) AS n FROM counter";
    for (name, row) in [("european", european), ("english", english)] {
        place.file(name, page(&[row]));
        let capture = format!("{name}.stallmap");
        place.run(&["import", name, "-o", &capture]).expect_ok();
        assert_eq!(number(&place, &capture, values), 11_734_400 + 2_759_552_000 + 4_250);
    }
    place.file("mixed", page(&[european, english]));
    let ran = place.run(&["import", "mixed", "-o", "x.stallmap"]);
    ran.expect_error(5);
    assert!(ran.stderr.contains("points and commas for decimals"), "{}", ran.stderr);
    // A kernel that was not measured has no part of the time.
    place.file("unmeasured", page(&[english, r#""2","7","large(int*)","n/a","1","1""#]));
    let ran = place.run(&["import", "unmeasured", "-o", "y.stallmap"]);
    assert!(ran.expect_ok().stderr.contains("kernels without a measured duration: 1"), "{}", ran.stderr);
    let first = place.run(&["y.stallmap"]).stdout;
    assert!(
        first.contains("1 of 2 launches has no duration. k takes 100 % of the measured time."),
        "{first}"
    );
}
