//! Damaged and partial files: what can be read is read, and the rest is a loss with its position.

use super::base::{KERNEL_NS, document, events, import, kernel_ns, trace};
use super::{number, python};
use crate::command::CommandFolder;

/// The trace with one more event.
fn with(event: &str) -> String {
    let mut events = events("30", "0", 1000);
    events.push(event.to_owned());
    document(&events)
}

/// A Python function whose name is written as it is.
fn function(name: &str) -> String {
    with(&format!(
        r#"{{"ph":"X","cat":"python_function","name":"{name}","pid":30,"tid":30,"ts":1500,"dur":2,"args":{{}}}}"#
    ))
}

#[test]
fn values_and_texts_that_are_not_json_cost_no_kernel() {
    let copy = r#"{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":7,"ts":1600,"dur":0,"args":{"bytes":64,"memory bandwidth (GB/s)": inf}}"#;
    let place = CommandFolder::new();
    for (name, content, loss) in [
        ("infinite", with(copy), "values that JSON lacks"),
        ("control", function("a\nb\u{1}"), "control characters in texts"),
        ("backslash", function(r"lib\cuda\_x.py(7): f"), "backslashes in texts"),
        ("quoted", function(r#"{"a": "b", "c": "d"}(7): f"#), "records that are not JSON"),
        ("comma", trace().replace("],\"traceName", ",],\"traceName"), "commas without a value"),
        ("behind", trace() + "\n\0\0\0", "bytes behind the end of the JSON"),
    ] {
        let capture = format!("{name}.stallmap");
        let messages = import(&place, content, &capture);
        assert_eq!(kernel_ns(&place, &capture), KERNEL_NS, "{name}");
        let line =
            messages.lines().find(|line| line.contains(loss)).unwrap_or_else(|| panic!("{name}: {messages}"));
        assert!(line.contains("byte "), "{line}");
    }
    let copies = "SELECT count(*) AS n FROM gpu_activity WHERE kind = 'copy' AND end_ns = begin_ns";
    assert_eq!(number(&place, "infinite.stallmap", copies), 1);
    let mut bytes = trace().into_bytes();
    let at = bytes.windows(4).position(|part| part == b"gemm").unwrap();
    bytes[at + 1] = 0xff;
    assert!(import(&place, bytes, "utf8.stallmap").contains("texts that are not UTF-8: 1"));
    assert_eq!(kernel_ns(&place, "utf8.stallmap"), KERNEL_NS);
    let names = "SELECT count(*) AS n FROM function WHERE name = 'g\u{fffd}mm'";
    assert_eq!(number(&place, "utf8.stallmap", names), 1);
}

#[test]
fn a_file_without_an_end_has_the_events_before_it() {
    let place = CommandFolder::new();
    let whole = trace();
    let cut = &whole[..whole.rfind("\"dur\":2.5").unwrap()];
    let messages = import(&place, cut, "cut.stallmap");
    assert_eq!(kernel_ns(&place, "cut.stallmap"), KERNEL_NS - 2_500);
    let position = format!("the rest of the file, which is not JSON: 1 (such as byte {}", cut.len());
    assert!(messages.contains(&position), "{messages}");
    // The same where the packing ends too early.
    place.file("whole", &whole);
    python(
        &place,
        "import gzip\npacked = gzip.compress(open('whole', 'rb').read(), 0); open('cut.gz', 'wb').write(packed[:-200])",
    );
    place.run(&["import", "cut.gz", "-o", "packed.stallmap"]).expect_ok();
    assert_eq!(kernel_ns(&place, "packed.stallmap"), KERNEL_NS - 2_500);
    place.file("head", &whole[..30]);
    let ran = place.run(&["import", "head", "-o", "x.stallmap"]);
    ran.expect_error(5);
    assert!(ran.stderr.contains("is not complete JSON: it ends too early at byte 30"), "{}", ran.stderr);
}

#[test]
fn lengths_that_no_kernel_has_are_losses() {
    let place = CommandFolder::new();
    for length in ["-5", "9223372036854775807"] {
        let kernel = format!(
            r#"{{"ph":"X","cat":"kernel","name":"odd","pid":0,"tid":7,"ts":1900,"dur":{length},"args":{{"device":0,"stream":7}}}}"#
        );
        let capture = format!("x{}.stallmap", length.len());
        let messages = import(&place, with(&kernel), &capture);
        assert_eq!(kernel_ns(&place, &capture), KERNEL_NS);
        assert_eq!(number(&place, &capture, "SELECT count(*) AS n FROM launch"), 4);
        assert!(
            messages.contains("events with a negative length, or one beyond all bounds: 1"),
            "{messages}"
        );
        assert!(messages.contains("kernels without a duration: 1"), "{messages}");
        // Its begin is known, and no call.
        let begin = "SELECT count(*) AS n FROM launch_run WHERE begin_ns = 1900000 AND end_ns IS NULL";
        assert_eq!(number(&place, &capture, begin), 1);
    }
}

#[test]
fn memory_stays_bounded_while_spaces_are_read() {
    let place = CommandFolder::new();
    let blanks = " ".repeat(8 << 20);
    place.file("blanks", &blanks);
    let ran = place.run(&["import", "blanks", "-o", "x.stallmap"]);
    ran.expect_error(5);
    assert!(ran.stderr.contains("begins with more than 1 MiB of spaces"), "{}", ran.stderr);
    let content = trace().replacen("\"traceEvents\"", &format!("{blanks}\"traceEvents\""), 1);
    import(&place, content, "x.stallmap");
    assert_eq!(kernel_ns(&place, "x.stallmap"), KERNEL_NS);
    place.file("line.csv", format!("\"ID\",\"Kernel Name\"\n\"{}\n", "x".repeat(17 << 20)));
    let ran = place.run(&["import", "line.csv", "-o", "y.stallmap"]);
    ran.expect_error(5);
    assert!(ran.stderr.contains("a line has more than 16 MiB"), "{}", ran.stderr);
}
