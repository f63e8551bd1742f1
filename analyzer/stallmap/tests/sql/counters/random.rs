//! Aggregates of counters against plain loops over random ones, with gaps and repeats that do not count.

use std::collections::BTreeMap;

use stallmap::session::Session;
use stallmap_schema::tables::replay::{Counter, Replay};
use stallmap_schema::word::ReplayResult;

use super::{NATIVE, NEW, counter, replay, sort, write_rows};
use crate::answer;
use crate::dice::LinearRandom;

const HIT: &str = "lts__t_sectors_lookup_hit.sum";
const MISS: &str = "lts__t_sectors_lookup_miss.sum";
const READ: &str = "dram__bytes_read.sum";
const TIME: &str = "gpu__time_duration.sum";
const BUSY: &str = "dram__throughput.avg.pct_of_peak_sustained_elapsed";
const NAMES: [&str; 3] = ["aten::a", "aten::b", "aten::c"];

/// Means over the repeats of each launch that count, by metric.
type RepeatMeans = BTreeMap<u64, BTreeMap<&'static str, f64>>;

/// Sixty launches of twelve ops of three names, each with most of the metrics, up to three repeats, some of them
/// invalid. Every fifth launch has replays without an instrument.
fn random(dice: &mut LinearRandom) -> (Vec<Replay>, Vec<Counter>, RepeatMeans, BTreeMap<u64, f64>) {
    let (mut replays, mut counters, mut means) = (Vec::new(), Vec::new(), RepeatMeans::new());
    let mut native = BTreeMap::new();
    let mut ordinal = 0;
    for launch in 0..60 {
        let repeats = 1 + u32::try_from(dice.below(3)).unwrap();
        let results: Vec<ReplayResult> = (0..repeats)
            .map(|_| if dice.below(4) == 0 { ReplayResult::Different } else { ReplayResult::Verified })
            .collect();
        for (repeat, result) in (0..).zip(&results) {
            replays.push(replay((NEW, ordinal), launch, repeat, *result, None));
            ordinal += 1;
        }
        for metric in [HIT, MISS, READ, TIME, BUSY] {
            if dice.below(5) == 0 {
                continue;
            }
            let values: Vec<f64> = results.iter().map(|_| dice.value()).collect();
            counters.extend(
                (0..).zip(&values).map(|(repeat, value)| counter(NEW, launch, repeat, (metric, *value))),
            );
            let valid = values.iter().zip(&results).filter(|(_, result)| **result == ReplayResult::Verified);
            let valid: Vec<f64> = valid.map(|(value, _)| *value).collect();
            if !valid.is_empty() {
                let mean = valid.iter().sum::<f64>() / f64::from(u32::try_from(valid.len()).unwrap());
                means.entry(launch).or_default().insert(metric, mean);
            }
        }
        if launch % 5 == 0 {
            let ns = 1 + dice.below(1000);
            native.insert(launch, f64::from(u32::try_from(ns).unwrap()));
        }
    }
    let natives = (0..).zip(&native).map(|(ordinal, (launch, ns))| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an integer below 1001")]
        replay((NATIVE, ordinal), *launch, 0, ReplayResult::Verified, Some(*ns as u64))
    });
    let mut all: Vec<Replay> = natives.collect();
    all.extend(replays);
    sort(&mut counters);
    (all, counters, means, native)
}

/// One op name's numbers, by loops over launches: hits of L2, bytes read, DRAM's throughput weighted by time, launches
/// that have counters.
fn expected(name: u64, means: &RepeatMeans, native: &BTreeMap<u64, f64>) -> [f64; 4] {
    let (mut hits, mut sectors, mut read, mut weighted, mut time, mut counted) =
        (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for (launch, values) in means.iter().filter(|(launch, _)| *launch % 3 == name) {
        counted += 1.0;
        if let (Some(hit), Some(miss)) = (values.get(HIT), values.get(MISS)) {
            (hits, sectors) = (hits + hit, sectors + hit + miss);
        }
        read += values.get(READ).copied().unwrap_or(0.0);
        let ns = values.get(TIME).or(native.get(launch));
        if let (Some(busy), Some(ns)) = (values.get(BUSY), ns) {
            (weighted, time) = (weighted + busy * ns, time + ns);
        }
    }
    [hits / sectors, read, weighted / time, counted]
}

#[tokio::test]
async fn aggregates_are_what_plain_loops_give() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..4 {
        let output = folder.path().join(format!("{seed}.stallmap"));
        let (replays, counters, means, native) = random(&mut LinearRandom(seed));
        let launches: Vec<(&str, Option<u64>)> =
            (0..60).map(|launch| ("gemm", Some(1 + launch % 12))).collect();
        let ops: Vec<(u64, &str)> = (1..).zip(NAMES.into_iter().cycle()).take(12).collect();
        write_rows(&output, &launches, &ops, (replays, counters));
        let session = Session::open(&[(None, output)]).unwrap();
        let ask = "SELECT e.l2_hit_share, e.dram_read_bytes, o.dram_throughput_pct, e.counted_launch_count \
            FROM op_counters_exact e JOIN op_counters o ON o.op = e.op WHERE e.grain = 'name' ORDER BY e.op";
        let rows = answer(&session, ask).await.unwrap();
        assert_eq!(rows.len(), NAMES.len());
        for (row, name) in rows.iter().zip(0..) {
            let given: Vec<f64> = row.split(" | ").map(|cell| cell.parse().unwrap()).collect();
            for (given, expected) in given.iter().zip(expected(name, &means, &native)) {
                assert!(
                    (given - expected).abs() <= 1e-9 * expected.abs(),
                    "op {name}: {given}, not {expected}"
                );
            }
        }
        // The calls of a name are the name.
        let parts = "SELECT c.op, sum(c.dram_read_bytes) - max(n.dram_read_bytes), sum(c.launch_count) - \
            max(n.launch_count) FROM op_counters_exact c JOIN op_counters_exact n ON n.op = c.op \
            AND n.grain = 'name' WHERE c.grain = 'call' GROUP BY c.op";
        for row in answer(&session, parts).await.unwrap() {
            let cells: Vec<&str> = row.split(" | ").collect();
            assert!(cells[1].parse::<f64>().unwrap().abs() < 1e-6 && cells[2] == "0", "{row}");
        }
    }
}
