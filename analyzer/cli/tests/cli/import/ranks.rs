//! Traces of eight ranks with delays of three kinds: rank, collective and cause are named, whatever the traces lack.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::{python, rows};
use crate::command::CommandFolder;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/programs/ranks.py");
/// Ends of one collective in the simulation differ by up to 1.5 us, and so do the clocks.
const ERROR_NS: i64 = 4_000;

/// Writes the traces, imports them, and returns what the simulation knows.
fn imported(place: &CommandFolder, options: &str) -> Value {
    let run = format!(
        "import runpy, sys\nsys.argv = ['', '.', *'{options}'.split()]\nrunpy.run_path('{PROGRAM}', run_name='__main__')"
    );
    python(place, &run);
    let files: Vec<String> = (0..8).rev().map(|rank| format!("rank{rank}.json")).collect();
    let mut arguments = vec!["import"];
    arguments.extend(files.iter().map(String::as_str));
    arguments.extend(["-o", "job.stallmap"]);
    let ran = place.run(&arguments);
    ran.expect_ok();
    assert!(ran.stderr.contains("clocks of 8 ranks aligned on"), "{}", ran.stderr);
    place.run(&["check", "job.stallmap"]).expect_ok();
    serde_json::from_str(&fs::read_to_string(place.path("expected.json")).unwrap()).unwrap()
}

/// Rows with a key, each with its numbers.
fn by_key(place: &CommandFolder, sql: &str) -> BTreeMap<String, Value> {
    let key = |row: &Value| row["key"].as_str().map_or_else(|| row["key"].to_string(), str::to_owned);
    rows(place, "job.stallmap", sql).into_iter().map(|row| (key(&row), row)).collect()
}

/// Collectives by group and number, which counts from the end: one rank lacks the first ones.
const COLLECTIVES: &str = "SELECT group_name || ' ' || CAST(CASE WHEN group_name = '0' THEN 36 ELSE 12 END \
    - row_number() OVER (PARTITION BY group_name ORDER BY begin_ns DESC) AS VARCHAR) AS key, * FROM collective_match";

#[test]
fn delays_of_ranks_are_named_with_their_causes() {
    for options in ["", "--no-numbers", "--old", "--old --no-numbers"] {
        let place = CommandFolder::new();
        let expected = imported(&place, options);
        let offsets = "SELECT r.rank AS key, CAST(o.value AS BIGINT) AS n FROM run_option o JOIN run r ON r.run_id = o.run_id \
             WHERE o.name = 'clock.offset_ns'";
        let found = by_key(&place, offsets);
        for (rank, offset) in expected["clocks"].as_object().unwrap().iter().filter(|(rank, _)| *rank != "0")
        {
            let off = found[rank]["n"].as_i64().unwrap() - offset.as_i64().unwrap();
            assert!(off.abs() < ERROR_NS, "{options}: clock of rank {rank} is off by {off} ns");
        }
        let found = by_key(&place, COLLECTIVES);
        let collectives = expected["collectives"].as_object().unwrap();
        assert_eq!(collectives.len(), 33 + 4 * 11);
        for (name, known) in collectives {
            let own = &found[name];
            let number = |value: &Value| value.as_i64().unwrap();
            let delay = number(&known["delay_ns"]);
            assert!(
                (number(&own["delay_ns"]) - delay).abs() < 2 * ERROR_NS,
                "{options}: {name}: {own} {known}"
            );
            assert!(
                (number(&own["wait_ns"]) - number(&known["wait_ns"])).abs() < 8 * ERROR_NS,
                "{name}: {own} {known}"
            );
            if delay > 2 * ERROR_NS {
                assert_eq!(own["last_rank"], known["last_rank"], "{options}: {name}: {own}");
            }
            let (rate, bus) = (own["bus_bytes_per_second"].as_f64().unwrap(), known["bus"].as_f64().unwrap());
            // Reduce-scatters are as short as the error of the clocks.
            assert!((rate / bus - 1.0).abs() < 0.1 || !name.starts_with('0'), "{name}: {rate} {bus}");
        }
        for delay in expected["delays"].as_array().unwrap() {
            let own = &found[&format!("{} {}", delay["group"].as_str().unwrap(), delay["number"])];
            assert_eq!(
                (&own["last_rank"], &own["cause"]),
                (&delay["last_rank"], &delay["cause"]),
                "{options}: {own}"
            );
        }
        let ranked = "SELECT rank, cause FROM rank_skew ORDER BY delay_ns DESC LIMIT 3";
        let ranked: Vec<String> = rows(&place, "job.stallmap", ranked)
            .iter()
            .map(|row| format!("{} {}", row["rank"], row["cause"].as_str().unwrap()))
            .collect();
        assert_eq!(ranked, ["6 input", "5 kernels", "2 launch"], "{options}");
        let sums =
            "SELECT CAST(sum(caused_wait_ns) AS BIGINT) = CAST(sum(wait_ns) AS BIGINT) AS n FROM rank_skew";
        assert_eq!(rows(&place, "job.stallmap", sums)[0]["n"], true);
    }
}

#[test]
fn exposed_and_hidden_time_of_collectives_is_that_of_the_spans() {
    let place = CommandFolder::new();
    let expected = imported(&place, "");
    let screen = place.run(&["job.stallmap", "--json"]).stdout;
    let last =
        "Rank 6 comes last to 3 of 48 collectives, 1.91 ms after the rest, because its input comes late.";
    assert!(screen.contains(last), "{screen}");
    let sql = "SELECT rank AS key, CAST(sum(hidden_ns) AS BIGINT) AS hidden, CAST(sum(duration_ns) AS BIGINT) AS whole, \
         CAST(sum(exposed_ns) AS BIGINT) AS exposed, max(algorithm) AS algorithm, max(protocol) AS protocol FROM collective GROUP BY rank";
    let found = by_key(&place, sql);
    assert_eq!(found.len(), 8);
    for (rank, own) in &found {
        assert_eq!(
            (&own["hidden"], &own["whole"]),
            (&expected["hidden"][rank], &expected["all"][rank]),
            "rank {rank}"
        );
        let part = |key: &str| own[key].as_i64().unwrap();
        assert_eq!(part("exposed") + part("hidden"), part("whole"));
        assert_eq!((own["algorithm"].as_str(), own["protocol"].as_str()), (Some("RING"), Some("LL")));
    }
    // The same time by device, where no two collectives of a device overlap.
    let devices = "SELECT CAST(sum(hidden_collective_ns) AS BIGINT) AS n FROM device_time";
    let all: i64 = found.values().map(|own| own["hidden"].as_i64().unwrap()).sum();
    assert_eq!(rows(&place, "job.stallmap", devices)[0]["n"].as_i64(), Some(all));
    // Values of a job are means of its ranks.
    place.run(&["import", "rank3.json", "-o", "one.stallmap"]).expect_ok();
    let ran = place.run(&["diff", "one.stallmap", "job.stallmap"]);
    assert!(ran.expect_ok().stdout.contains(" a step, mean of 1 and 8 ranks"), "{}", ran.stdout);
    let ran = place.run(&["diff", "one.stallmap", "job.stallmap", "--by", "kernels", "--json"]);
    let answer: Value = serde_json::from_str(&ran.expect_ok().stdout).unwrap();
    let mut rows =
        answer["sections"].as_array().unwrap().iter().flat_map(|part| part["rows"].as_array().unwrap());
    let time = rows.find(|row| row["what"] == "time").unwrap();
    let ratio = time["ratio"].as_f64().unwrap();
    assert!((0.9..1.1).contains(&ratio), "{time}");
    place.run(&["top", "collectives", "job.stallmap"]).check("top_collectives");
    place.run(&["report", "job.stallmap", "--section", "ranks"]).check("report_ranks");
}

#[test]
fn ranks_without_numbers_in_their_files_have_those_of_the_names() {
    let place = CommandFolder::new();
    imported(&place, "");
    for rank in 0..2 {
        let path = place.path(&format!("rank{rank}.json"));
        let mut trace: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        trace.as_object_mut().unwrap().remove("distributedInfo");
        place.file(&format!("x_rank-{rank}.json"), trace.to_string());
    }
    place.run(&["import", "x_rank-1.json", "x_rank-0.json", "-o", "two.stallmap"]).expect_ok();
    let sql = "SELECT rank, process_id FROM run ORDER BY rank";
    let found = rows(&place, "two.stallmap", sql);
    assert_eq!((found[0]["rank"].as_u64(), found[0]["process_id"].as_u64()), (Some(0), Some(4000)));
    // A pair's reduce-scatters have two ranks, and the all-reduces of eight have two of eight.
    let ranks = "SELECT group_size AS key, min(rank_count) AS n, count(*) AS c FROM collective_match GROUP BY group_size";
    let found = rows(&place, "two.stallmap", ranks);
    assert!(found.iter().all(|row| row["n"] == 2), "{found:?}");
    assert_eq!(found.iter().map(|row| row["c"].as_u64().unwrap()).sum::<u64>(), 48);
}

/// Reports of Nsight Systems of two ranks, one clock 5 ms ahead: an all-reduce after each kernel, which one rank begins late.
const NSYS: &str = r#"
import sqlite3
for rank in range(2):
    base = sqlite3.connect(f"rank{rank}.sqlite")
    base.executescript("CREATE TABLE StringIds (id, value);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, demangledName, gridX, gridY, gridZ, blockX, blockY, blockZ);")
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "gemm"), (2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")])
    for n in range(20):
        begin = 1_000_000 * n + 7_000 * (n * n % 11) + 5_000_000 * rank
        length = 300_000 + (200_000 if (rank, n) == (1, 12) else 0)
        last = 300_000 + (200_000 if n == 12 else 0)
        for name, first, end in ((1, begin, begin + length), (2, begin + length + 1_000, begin + last + 100_000)):
            base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, 0, ?, ?, 1, 1, 1, 32, 1, 1)", (first, end, (30 + rank) << 24, name))
    base.commit()
"#;

#[test]
fn reports_of_nsight_systems_are_ranks_by_their_names() {
    let place = CommandFolder::new();
    python(&place, NSYS);
    place.run(&["import", "rank0.sqlite", "rank1.sqlite", "-o", "job.stallmap"]).expect_ok();
    let offsets = "SELECT rank AS key, value FROM run_option o JOIN run r ON r.run_id = o.run_id WHERE name = 'clock.offset_ns'";
    assert_eq!(by_key(&place, offsets)["1"]["value"], "-5000000");
    let late = "SELECT last_rank AS key, cause, delay_ns FROM collective_match WHERE delay_ns > 0";
    let found = by_key(&place, late);
    assert_eq!(
        (found.len(), &found["1"]["cause"], found["1"]["delay_ns"].as_u64()),
        (1, &"kernels".into(), Some(200_000))
    );
}
