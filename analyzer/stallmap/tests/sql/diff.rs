//! The comparison of `sql/queries/diff/compare.sql` on made-up counts: it adds up, mirrors, and does not rank noise.

use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use stallmap::library::queries;
use stallmap::session::Session;
use stallmap_write::CaptureForm;

use crate::{answer, tiny};

/// The first launch of the small capture.
const LAUNCH: u64 = 0;

/// Counts of one row in the first capture and in the second. None if it is absent.
type CountPair = (Option<u32>, Option<u32>);

fn session(folder: &Path) -> Session {
    let path = folder.join("tiny.stallmap");
    if !path.exists() {
        tiny::write(&path, CaptureForm::File).unwrap();
    }
    Session::open(&[(Some("a".into()), path.clone()), (Some("b".into()), path)]).unwrap()
}

/// Makes the table of one comparison, and the query over it.
fn compare(session: &Session, things: &[CountPair], top: usize) -> String {
    let mut rows = String::new();
    for (key, (base, other)) in things.iter().enumerate() {
        let sides = [("a", base), ("b", other)];
        for (capture, count) in sides.into_iter().filter_map(|(name, count)| count.map(|count| (name, count)))
        {
            write!(rows, "('{capture}', {LAUNCH}, 'k{key:03}', 'thing {key}', '', {count}.0, {count}.0),")
                .unwrap();
        }
    }
    let rows = format!(
        "SELECT column1 AS capture, column2 AS kernel_id, column3 AS key, column4 AS what, column5 AS detail,
         column5 AS last_detail, column6 AS value, column7 AS variance FROM (VALUES {})",
        rows.trim_end_matches(',')
    );
    let sums = queries::diff::SUMS.body().replace("$rows", &rows).replace("$per", "total");
    let tables = [
        ("diff_alike", queries::diff::ALIKE.body()),
        ("counts", sums.replace("$parts", "SELECT * FROM measured_row")),
    ];
    for (name, rows) in tables {
        for sql in [format!("DROP TABLE IF EXISTS {name}"), format!("CREATE TABLE {name} AS {rows}")] {
            runtime().block_on(session.sql(&sql)).unwrap();
        }
    }
    let text = queries::diff::COMPARE.text();
    let fill = [
        ("$table", "counts"),
        ("$per", "total"),
        ("$base", "a"),
        ("$all", "0"),
        ("$spread", "0.0"),
        ("$top", &top.to_string()),
    ];
    fill.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Numbers of the rows of a query over the comparison.
fn ask(session: &Session, sql: &str) -> Vec<Vec<f64>> {
    let rows = runtime().block_on(answer(session, sql)).unwrap();
    rows.iter().map(|row| row.split(" | ").map(|cell| cell.parse().unwrap_or(f64::NAN)).collect()).collect()
}

fn things() -> impl Strategy<Value = Vec<CountPair>> {
    let count = || prop_oneof![Just(None), (0_u32..30).prop_map(Some), (0_u32..5000).prop_map(Some)];
    prop::collection::vec((count(), count()).prop_filter("is somewhere", |(a, b)| a.or(*b).is_some()), 1..20)
}

fn sums(things: &[CountPair]) -> [f64; 2] {
    let sum = |of: fn(&CountPair) -> Option<u32>| things.iter().filter_map(of).map(f64::from).sum();
    [sum(|thing| thing.0), sum(|thing| thing.1)]
}

#[test]
fn rows_add_up_and_mirror_whatever_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path());
    let mut runner = TestRunner::new(Config { cases: 8, ..Config::default() });
    runner
        .run(&things(), |things| {
            let columns =
                "sum(base_value), sum(value), sum(change), sum(rows), sum(new_rows), sum(gone_rows)";
            let sql = format!("SELECT {columns} FROM ({})", compare(&session, &things, 2));
            let [a, b] = sums(&things);
            let new = things.iter().filter(|thing| thing.0.is_none()).count();
            let gone = things.iter().filter(|thing| thing.1.is_none()).count();
            let expected = [a, b, b - a, things.len() as f64, new as f64, gone as f64];
            prop_assert_eq!(ask(&session, &sql), [expected.to_vec()]);

            let columns = "place, base_value, value, change_low, change_high, ratio_low";
            let there = ask(
                &session,
                &format!("SELECT {columns} FROM ({}) ORDER BY place", compare(&session, &things, 99)),
            );
            let swapped: Vec<CountPair> = things.iter().map(|&(a, b)| (b, a)).collect();
            let columns = "place, value, base_value, -change_high, -change_low, 1 / ratio_high";
            let back = ask(
                &session,
                &format!("SELECT {columns} FROM ({}) ORDER BY place", compare(&session, &swapped, 99)),
            );
            prop_assert_eq!(there.len(), back.len());
            for (there, back) in there.iter().flatten().zip(back.iter().flatten()) {
                let near = (there - back).abs() <= 1e-6 * there.abs().max(1.0);
                prop_assert!(near || there.is_nan() && back.is_nan(), "{} {}", there, back);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn equal_counts_are_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path());
    let things: Vec<CountPair> = (0..50).map(|count| (Some(count * count), Some(count * count))).collect();
    let sql = format!("SELECT rows, change FROM ({})", compare(&session, &things, 10));
    assert_eq!(ask(&session, &sql), [[50.0, 0.0]]);
}

/// A counter of splitmix64, which makes numbers between 0 and 1.
struct UnitRandom(u64);

impl UnitRandom {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A Poisson count: arrivals until the time is over.
    fn poisson(&mut self, mean: f64) -> u32 {
        let (mut time, mut count) = (-self.next().ln(), 0);
        while time < mean {
            time -= self.next().ln();
            count += 1;
        }
        count
    }
}

#[test]
fn noise_is_not_ranked_and_what_differs_is() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path());
    let mut chance = UnitRandom(1);
    let mut ranked = 0.0;
    for _ in 0..10 {
        let things: Vec<CountPair> = (0..200)
            .map(|key| f64::from(key % 40).powi(2))
            .map(|mean| (Some(chance.poisson(mean)), Some(chance.poisson(mean))))
            .collect();
        let sql = format!(
            "SELECT coalesce(sum(rows), 0) FROM ({}) WHERE verdict <> '~'",
            compare(&session, &things, 999)
        );
        ranked += ask(&session, &sql)[0][0];
    }
    // In one of twenty comparisons of equal rows, a row is ranked at random.
    assert!(ranked <= 2.0, "{ranked} rows of 2,000");
    let mut things: Vec<CountPair> =
        (0..200).map(|_| (Some(chance.poisson(300.0)), Some(chance.poisson(300.0)))).collect();
    for thing in things.iter_mut().take(20) {
        thing.1 = Some(chance.poisson(450.0));
    }
    let differ = "sum(rows) FILTER (WHERE what IN ('thing 0', 'thing 7', 'thing 19'))";
    let sql = format!(
        "SELECT sum(rows), {differ} FROM ({}) WHERE verdict = 'more'",
        compare(&session, &things, 999)
    );
    let found = ask(&session, &sql);
    assert!((18.0..=22.0).contains(&found[0][0]) && found[0][1] > 2.5, "{found:?}");
}
