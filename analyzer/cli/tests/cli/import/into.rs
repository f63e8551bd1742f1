//! A trace joined to a capture of the same program.

use serde_json::Value;

use super::{number, rows};
use crate::command::CommandFolder;

/// A trace of the capture's launches: names as another tool writes them, ops without overloads, times of 1,000 ns and
/// 10 ns more for each launch. Then kernels that have no partner.
fn trace(launches: &[Value]) -> String {
    let mut events = Vec::new();
    let mut kernel = |name: &str, op: Option<&str>, grid: &Value, block: &Value| {
        let number = events.len() as u64;
        let begin = 100 * number;
        if let Some(op) = op {
            events.push(format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"{op}","pid":9,"tid":9,"ts":{begin},"dur":50,"args":{{}}}}"#
            ));
            events.push(format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":{begin},"dur":5,"args":{{"correlation":{number}}}}}"#
            ));
        }
        let length = format!("1.{:03}", number % 1000);
        events.push(format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":{begin},"dur":{length},"args":{{"correlation":{number},"device":0,"stream":7,"grid":{grid},"block":{block}}}}}"#
        ));
    };
    for launch in launches {
        let name = launch["kernel"].as_str().unwrap();
        let name = name
            .replace("128, 2", "(int)128, (int)2")
            .replace("<4,", "<(int)4,")
            .replace("(unsigned long)3", "3ul");
        let op = launch["op"].as_str().map(|op| op.rsplit_once('.').unwrap().0);
        let sizes = |keys: [&str; 3]| Value::from(keys.map(|key| launch[key].as_u64().unwrap()).to_vec());
        kernel(&name, op, &sizes(["grid_x", "grid_y", "grid_z"]), &sizes(["block_x", "block_y", "block_z"]));
    }
    let one = Value::from(vec![1, 1, 1]);
    kernel("unknown", None, &one, &one);
    kernel("unknown", None, &one, &one);
    kernel("shapeless", None, &Value::from(Vec::<u64>::new()), &one);
    format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))
}

/// The launches of a capture.
const LAUNCHES: &str = "SELECT c.kernel_id, c.kernel, c.op, grid_x, grid_y, grid_z, block_x, block_y, block_z FROM launch l \
    JOIN launch_context c ON c.kernel_id = l.kernel_id ORDER BY c.kernel_id";

fn bundled(name: &str) -> String {
    format!("{}/../../testdata/{name}.stallmap", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn measured_times_reach_the_launches_of_a_capture() {
    let place = CommandFolder::new();
    let capture = bundled("inference_views");
    let launches = rows(&place, &capture, LAUNCHES);
    assert_eq!(launches.len(), 3);
    place.file("t.json", trace(&launches));
    let ran = place.run(&["import", "t.json", "--into", &capture, "-o", "x.stallmap"]);
    ran.expect_ok();
    assert!(ran.stderr.contains("3 of 6 kernels joined with 3 of 3 launches"), "{}", ran.stderr);
    place.run(&["check", "x.stallmap"]).expect_ok();
    let times =
        "SELECT CAST(time_ns AS BIGINT) AS n FROM launch_time WHERE source = 'timeline' ORDER BY kernel_id";
    let found: Vec<u64> =
        rows(&place, "x.stallmap", times).iter().map(|row| row["n"].as_u64().unwrap()).collect();
    // A launch has an op and a call before it: its number is 0, 3, 6.
    assert_eq!(found, [1000, 1003, 1006]);
    let one = |sql: &str| number(&place, "x.stallmap", sql);
    assert_eq!(
        one("SELECT count(*) AS n FROM gpu_activity WHERE kernel_id IS NULL AND kernel_name IS NOT NULL"),
        3
    );
    assert_eq!(
        one(
            "SELECT lost_count AS n FROM loss WHERE reason LIKE 'kernels of the trace whose kind the capture does not%'"
        ),
        2
    );
    assert_eq!(
        one("SELECT lost_count AS n FROM loss WHERE reason LIKE 'kernels of the trace without a grid%'"),
        1
    );
    let rate = "SELECT count(*) AS n FROM run_option WHERE name = 'joined.launches' AND value LIKE '3 of 6 kernels%'";
    assert_eq!(one(rate), 1);
    let run =
        "SELECT count(*) AS n FROM run WHERE run_id = 3 AND reference_run_id = 1 AND instrument = 'timeline'";
    assert_eq!(one(run), 1);
    for table in ["launch", "memory_access", "pc_sample", "op", "tensor"] {
        let count = format!("SELECT count(*) AS n FROM {table}");
        assert_eq!(one(&count), number(&place, &capture, &count), "{table}");
    }
    for command in
        [&["x.stallmap"][..], &["report", "x.stallmap", "--all"], &["top", "kernels", "x.stallmap"]]
    {
        place.run(command).expect_ok();
    }
}

#[test]
fn another_number_of_a_kind_is_no_match() {
    let place = CommandFolder::new();
    let capture = bundled("inference_views");
    let mut launches = rows(&place, &capture, LAUNCHES);
    launches.push(launches[0].clone());
    place.file("t.json", trace(&launches));
    place.run(&["import", "t.json", "--into", &capture, "-o", "x.stallmap"]).expect_ok();
    let one = |sql: &str| number(&place, "x.stallmap", sql);
    assert_eq!(one("SELECT count(*) AS n FROM launch_time WHERE source = 'timeline'"), 2);
    assert_eq!(one("SELECT lost_count AS n FROM loss WHERE reason LIKE '%another number of'"), 2);
    assert_eq!(one("SELECT lost_count AS n FROM loss WHERE reason LIKE 'launches without a kernel%'"), 1);
}

#[test]
fn captures_of_several_processes_and_other_files_are_errors() {
    let place = CommandFolder::new();
    place.file("t.json", trace(&[]));
    place.run(&["import", "t.json", "--into", &bundled("two_ranks"), "-o", "x.stallmap"]).expect_error(2);
    place.run(&["import", "t.json", "--into", "t.json", "-o", "x.stallmap"]).expect_error(3);
    place.run(&["import", "t.json", "--into", "missing", "-o", "x.stallmap"]).expect_error(3);
    assert!(!place.path("x.stallmap").exists());
}
