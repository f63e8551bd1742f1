//! Packed files, marks of texts, and files of which a message says what they are.

use super::base::{KERNEL_NS, document, events, kernel_ns, trace};
use super::{number, python};
use crate::command::CommandFolder;

/// Packs `trace.json` in all ways.
const PACK: &str = r#"
import gzip, io, tarfile, zipfile
text = open("trace.json", "rb").read()
with tarfile.open("one.tar.gz", "w:gz") as archive:
    archive.add("trace.json", "folder/trace.json")
with tarfile.open("one.tar", "w") as archive:
    archive.add("trace.json")
with tarfile.open("two.tar", "w") as archive:
    archive.add("trace.json")
    archive.add("trace.json", "other.json")
with zipfile.ZipFile("one.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("folder/", "")
    archive.writestr("folder/trace.json.gz", gzip.compress(text))
with zipfile.ZipFile("stored.zip", "w") as archive:
    archive.writestr("trace.json", text)
with zipfile.ZipFile("two.zip", "w") as archive:
    archive.writestr("a.json", text)
    archive.writestr("b.json", text)
open("mark.json", "wb").write(b"\xef\xbb\xbf" + text)
open("little.json", "wb").write(text.decode().encode("utf-16"))
open("big.json", "wb").write(b"\xfe\xff" + text.decode().encode("utf-16-be"))
"#;

#[test]
fn archives_of_one_file_and_marked_texts_are_read() {
    let place = CommandFolder::new();
    place.file("trace.json", trace());
    python(&place, PACK);
    for file in ["one.tar.gz", "one.tar", "one.zip", "stored.zip", "mark.json", "little.json", "big.json"] {
        let capture = format!("{file}.stallmap");
        place.run(&["import", file, "-o", &capture]).expect_ok();
        assert_eq!(kernel_ns(&place, &capture), KERNEL_NS, "{file}");
    }
    for (file, reason) in
        [("two.zip", "is a ZIP archive with 2 files"), ("two.tar", "it is an archive of several files")]
    {
        let ran = place.run(&["import", file, "-o", "x.stallmap"]);
        ran.expect_error(5);
        assert!(ran.stderr.contains(reason), "{}", ran.stderr);
    }
    let ran = place.run(&["import", "one.zip.stallmap", "-o", "x.stallmap"]);
    assert!(ran.stderr.contains("is a capture of stallmap already"), "{}", ran.stderr);
}

#[test]
fn a_message_says_what_a_file_is() {
    let xla = [
        r#"{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}}"#,
        r#"{"ph":"X","pid":1,"tid":3,"ts":1,"dur":2,"name":"fusion","args":{"hlo_op":"fusion"}}"#,
    ];
    let rocprof = r#"{"ph":"X","name":"k()","pid":6,"tid":0,"ts":"20","dur":"5","args":{"BeginNs":"20000"}}"#;
    let other = r#"{"ph":"X","cat":"render","name":"frame","pid":6,"tid":0,"ts":20,"dur":5}"#;
    let json =
        |events: &[&str]| document(&events.iter().map(|event| (*event).to_owned()).collect::<Vec<_>>());
    let cycles = r#"[{"frame":{"name":"ROOT"},"metrics":{},"children":[{"frame":{"name":"load"},
        "metrics":{"cycles":40,"normalized_cycles":10.0},"children":[]}]}]"#;
    let place = CommandFolder::new();
    for (name, content, reason) in [
        ("empty", String::new(), "is empty"),
        ("spaces", " \n".to_owned(), "has only spaces"),
        (
            "nsys-rep",
            "NVIDIA Tegra Profiler Report 2026@1\r\n\u{1}".to_owned(),
            "is a report of Nsight Systems",
        ),
        ("xla", json(&xla), "is a trace of XLA"),
        ("rocprof", json(&[rocprof]), "is a trace of rocprof 1 or 2"),
        ("other", json(&[other]), "such as of category `render`"),
        ("list", "[1,2,3]".to_owned(), "has no trace events"),
        ("cycles", cycles.to_owned(), "has no kernels"),
    ] {
        place.file(name, content);
        let ran = place.run(&["import", name, "-o", "x.stallmap"]);
        ran.expect_error(5);
        assert!(ran.stderr.contains(reason), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains("hint:"), "{name}: {}", ran.stderr);
    }
    // What is not read is counted by its name.
    let mut events = events("30", "0", 1000);
    events.push(other.to_owned());
    place.file("mixed", document(&events));
    let ran = place.run(&["import", "mixed", "-o", "x.stallmap"]);
    assert!(ran.expect_ok().stderr.contains("events of category `render`: 1"), "{}", ran.stderr);
}

/// Databases without kernels: a report without CUDA, one of rocprofv3, and another one.
const DATABASES: &str = r#"
import sqlite3
for name, table in (("report", "META_DATA_EXPORT (name, value)"), ("rocpd", "rocpd_metadata_1 (id)"), ("other", "people (id)")):
    sqlite3.connect(name).execute("CREATE TABLE " + table)
"#;

#[test]
fn a_message_says_what_a_database_is() {
    let place = CommandFolder::new();
    python(&place, DATABASES);
    for (name, reason, hint) in [
        ("report", "is a report of Nsight Systems without CUDA and NVTX", "-t cuda,nvtx"),
        ("rocpd", "is a database of rocprofv3", "--kernel-trace"),
        ("other", "has no tables of CUDA and NVTX", "nsys export"),
    ] {
        let ran = place.run(&["import", name, "-o", "x.stallmap"]);
        ran.expect_error(5);
        assert!(ran.stderr.contains(reason) && ran.stderr.contains(hint), "{}", ran.stderr);
    }
}

#[test]
fn a_damaged_database_has_the_rows_before_the_damage() {
    let place = CommandFolder::new();
    python(
        &place,
        r#"
import sqlite3
base = sqlite3.connect("x.sqlite")
base.execute("PRAGMA page_size = 512")
base.execute("CREATE TABLE StringIds (id, value)")
base.execute("INSERT INTO StringIds VALUES (1, 'k(int*)')")
base.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, demangledName)")
base.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, 1)", ((1000 * n, 1000 * n + 100) for n in range(200)))
base.commit()
base.close()
content = open("x.sqlite", "rb").read()
open("x.sqlite", "wb").write(content[:-512] + b"\xff" * 512)
"#,
    );
    place.run(&["import", "x.sqlite", "-o", "x.stallmap"]).expect_ok();
    let kernels = number(&place, "x.stallmap", "SELECT count(*) AS n FROM launch");
    assert!((100..200).contains(&kernels), "{kernels}");
    let lost = "SELECT count(*) AS n FROM loss WHERE detail LIKE 'CUPTI_ACTIVITY_KIND_KERNEL: %'";
    assert_eq!(number(&place, "x.stallmap", lost), 1);
}
