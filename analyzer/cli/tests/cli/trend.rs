//! Costs of many captures: trends with intervals and changes, gates from history, rankings, the atlas of functions.

use std::collections::BTreeMap;
use std::fs;

use crate::command::CommandFolder;
use crate::fleet::{place, rows, run};

/// A folder `runs` with captures of eight commits: five of one program, then three of a faster one.
fn commits() -> CommandFolder {
    let place = CommandFolder::new();
    fs::create_dir_all(place.path("runs")).unwrap();
    for commit in 0..8 {
        let name = if commit < 5 { "inference_views" } else { "inference_views_contiguous" };
        let bundled = format!("{}/../../testdata/{name}.stallmap", env!("CARGO_MANIFEST_DIR"));
        let path = format!("runs/{commit}.stallmap");
        fs::copy(bundled, place.path(&path)).unwrap();
        let (commit, branch) =
            (format!("commit=c{commit}"), if commit < 7 { "branch=main" } else { "branch=pr" });
        assert_eq!(run(&place, &["label", &path, &commit, "model=views", branch]).2, Some(0));
    }
    place
}

/// Computed again from the points of each series: means, variances and Student's t of 99 %.
#[test]
fn trends_are_means_with_intervals() {
    let place = commits();
    let sql = "SELECT series, branch, value, history, expected, low, high, later FROM trend \
               WHERE metric = 'samples' AND kind = 'line' ORDER BY series, branch, point";
    let text = rows(&place, sql);
    let t = [9.925, 5.841, 4.604, 4.032, 3.707, 3.499];
    let mut earlier: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let (mut points, mut intervals) = (0, 0);
    for line in text.lines().skip(1) {
        // A series may hold commas, and then quotes.
        let cells: Vec<&str> = line.rsplitn(8, ',').collect();
        let number = |at: usize| cells[at].parse::<f64>().ok();
        let values = earlier.entry(format!("{},{}", cells[7], cells[6])).or_default();
        let (low, expected, history) = (number(2), number(3), number(4).unwrap());
        assert!((history - values.len() as f64).abs() < 0.5, "{line}");
        if !values.is_empty() {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            assert!((expected.unwrap() - mean).abs() <= 1e-6 * mean.abs(), "{line}");
            if values.len() >= 3 {
                let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
                let error = t[values.len() - 3] * (variance * (1.0 + 1.0 / n)).sqrt();
                assert!((low.unwrap() - (mean - error)).abs() <= 1e-6 * mean.abs().max(1.0), "{line}");
                intervals += 1;
            } else {
                assert_eq!(low, None, "{line}");
            }
        }
        values.push(number(5).unwrap());
        points += 1;
    }
    assert!(points > 20 && intervals > 8, "{text}");
    // Points of a kind add up to the samples of each capture.
    let sums = rows(
        &place,
        "SELECT kind, capture, round(sum(samples)) AS n FROM trend_point GROUP BY 1, 2 ORDER BY 2, 1",
    );
    for capture in 0..8 {
        let name = format!("{capture}.stallmap");
        let own: Vec<&str> = sums.lines().filter(|line| line.contains(&name)).collect();
        let numbers: Vec<&str> = own.iter().map(|line| line.rsplit(',').next().unwrap()).collect();
        assert!(numbers.len() == 6 && numbers.iter().all(|number| *number == numbers[0]), "{own:?}");
    }
}

#[test]
fn few_captures_are_not_tested() {
    let place = commits();
    for commit in 3..8 {
        fs::remove_file(place.path(&format!("runs/{commit}.stallmap"))).unwrap();
    }
    let (text, _, code) = run(&place, &["trend", "runs"]);
    assert!(text.contains("(too few captures: only a value after three others can be tested)"), "{text}");
    assert_eq!(code, Some(0));
}

#[test]
fn a_change_is_drawn_named_and_judged() {
    let place = commits();
    let (text, error, code) = run(&place, &["trend", "runs", "--label", "branch=main", "-m", "samples"]);
    assert_eq!(code, Some(0), "{error}");
    for part in ["samples of all launches in 7 captures: views, main, NVIDIA H200", "●", "▲", "Changes\nc"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let judge = |condition: &str, more: &[&str]| {
        let arguments = [&["trend", "runs", "-m", "samples", "--fail-if", condition], more].concat();
        let (_, error, code) = run(&place, &arguments);
        (error, code)
    };
    let head = ["--head", "commit=c5", "--baseline", "commit=c0"];
    let old = ["--head", "commit=c4", "--baseline", "branch=main"];
    // One capture of a baseline has no noise.
    let (error, code) = judge("samples > +5% beyond noise", &head);
    assert!(code == Some(7) && error.contains("cannot be checked") && error.contains("hint: "), "{error}");
    let (slower, slower_code) = judge("samples > +5%", &head);
    let (faster, faster_code) = judge("samples < -5%", &head);
    assert!(
        matches!((slower_code, faster_code), (Some(0), Some(6)) | (Some(6), Some(0))),
        "{slower}{faster}"
    );
    assert!(format!("{slower}{faster}").contains("failed: samples"), "{slower}{faster}");
    // The variation of the baseline is larger than this change.
    assert_eq!(judge("samples > +1% beyond noise", &old).1, Some(0));
    assert_eq!(judge("samples > +1e6", &[]).1, Some(0));
    assert_eq!(judge("sectors > +1%", &[]).1, Some(2));
}

#[test]
fn rankings_and_reports_are_of_all_captures() {
    let place = commits();
    let sum = "SELECT round(sum(samples)) AS n FROM kernel_cost";
    let all = rows(&place, sum).lines().nth(1).unwrap().to_owned();
    for what in ["kernels", "lines", "tensors", "ops"] {
        let arguments = ["top", what, "--over", "runs", "-n", "2", "--format", "csv"];
        let (text, error, code) = run(&place, &arguments);
        assert_eq!(code, Some(0), "{error}");
        let samples =
            text.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse::<f64>().unwrap());
        assert_eq!(format!("{:.1}", samples.sum::<f64>().round()), all, "{text}");
    }
    let (findings, error, _) = run(&place, &["top", "findings", "--over", "runs"]);
    assert!(findings.contains("Costs in 8 captures") && error.is_empty(), "{findings}{error}");
    let (report, error, code) = run(&place, &["report", "--over", "runs"]);
    assert_eq!(code, Some(0), "{error}");
    for part in ["GPU time of all launches", "Captures\n", "Kernels by cost", "Python lines by cost"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let json = run(&place, &["report", "--over", "runs", "--json"]).0;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sections"][0]["rows"].as_array().unwrap().len(), 5, "{json}");
    // Two captures by label are compared as if they were named.
    let chosen = run(&place, &["diff", "--over", "runs", "--base", "commit=c1", "--head", "commit=c6"]);
    let named = run(&place, &["diff", "runs/1.stallmap", "runs/6.stallmap"]);
    assert_eq!((&chosen.0, chosen.2), (&named.0, named.2), "{}", chosen.1);
    assert!(chosen.1.contains("comparing `6.stallmap` with `1.stallmap`"), "{}", chosen.1);
    let (_, error, code) = run(&place, &["diff", "--over", "runs", "--base", "commit=none"]);
    assert!(code == Some(2) && error.contains("no capture has commit=none"), "{error}");
}

#[test]
fn the_atlas_holds_functions_by_their_code() {
    let place = place();
    let atlas = rows(
        &place,
        "SELECT count(*) AS n, count(DISTINCT function_id) AS f, round(sum(samples)) AS s FROM function_atlas",
    );
    let alone = rows(
        &place,
        "SELECT count(DISTINCT function_id) AS n, count(DISTINCT function_id) AS f, round(sum(samples)) AS s FROM kernel_cost",
    );
    assert_eq!(atlas, alone);
    let mix = rows(
        &place,
        "SELECT function_id, round(sum(share), 6) AS share FROM function_stall GROUP BY 1 HAVING abs(sum(share) - 1.0) > 1e-9",
    );
    assert_eq!(mix.lines().count(), 1, "{mix}");
    let patterns = rows(
        &place,
        "SELECT sum(samples) > 0.0 AS has, max(efficiency) <= 1.0 AS is_part FROM function_pattern",
    );
    assert!(patterns.ends_with("true,true\n"), "{patterns}");
    // Each rank of a job is compared with the mean of all.
    let ranks = "SELECT rank, launch_count, round(ratio - 1.0, 4) AS ratio FROM rank_spread ORDER BY 1";
    assert_eq!(rows(&place, ranks), "rank,launch_count,ratio\n");
    let bundled = format!("{}/../../testdata/two_ranks.stallmap", env!("CARGO_MANIFEST_DIR"));
    let spread = run(&place, &["sql", "--over", &bundled, "--format", "csv", "-c", ranks]);
    // 21,947.47 and 21,636.36 ns, whose mean is 21,791.92.
    assert_eq!(spread.0, "rank,launch_count,ratio\n0,30,0.0071\n1,30,-0.0071\n");
}

/// A folder `runs` with a capture that has samples, and one that has times only.
fn mixture() -> CommandFolder {
    let place = CommandFolder::new();
    fs::create_dir_all(place.path("runs")).unwrap();
    for (bundled, name) in [("inference_views", "views"), ("step_truth", "timed")] {
        let bundled = format!("{}/../../testdata/{bundled}.stallmap", env!("CARGO_MANIFEST_DIR"));
        fs::copy(bundled, place.path(&format!("runs/{name}.stallmap"))).unwrap();
    }
    place
}

#[test]
fn costs_of_captures_without_samples_compare_by_time() {
    let place = mixture();
    let (text, error, code) = run(&place, &["top", "kernels", "--over", "runs", "--format", "csv"]);
    assert_eq!(code, Some(0), "{error}");
    let numbers = |column: usize| -> Vec<f64> {
        let cell = |line: &str| line.split(',').nth(column).unwrap().parse().unwrap_or(0.0);
        text.lines().skip(1).map(cell).collect()
    };
    let (shares, times) = (numbers(0), numbers(3));
    let all: f64 = times.iter().sum();
    assert!(shares.iter().zip(&times).all(|(share, time)| (share - time / all).abs() < 1e-9), "{text}");
    let ranked = &times[..times.len() - 1];
    assert!(ranked.is_sorted_by(|one, next| one >= next), "{text}");
    let (text, _, _) = run(&place, &["top", "kernels", "--over", "runs"]);
    assert!(
        text.starts_with("Costs in 2 captures, shares of GPU time: not all captures have samples\n"),
        "{text}"
    );
}

#[test]
fn findings_of_all_captures_are_ranked_by_their_saving() {
    let place = mixture();
    let (text, error, code) = run(&place, &["top", "findings", "--over", "runs", "--format", "csv"]);
    assert_eq!(code, Some(0), "{error}");
    let sums: Vec<f64> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').take(2).map(|cell| cell.parse::<f64>().unwrap_or(f64::MIN)).sum())
        .collect();
    assert!(sums.len() > 3 && sums[0] > 1e5 && sums.is_sorted_by(|one, next| one >= next), "{text}");
}

#[test]
fn captures_without_samples_have_no_trend_of_samples() {
    let place = mixture();
    fs::remove_file(place.path("runs/views.stallmap")).unwrap();
    fs::copy(place.path("runs/timed.stallmap"), place.path("runs/next.stallmap")).unwrap();
    let arguments = ["trend", "runs", "-m", "samples", "--fail-if", "samples > +5%"];
    let (text, error, code) = run(&place, &arguments);
    assert!(text.contains("(no samples)") && !text.contains("e-308"), "{text}");
    assert!(code == Some(7) && error.contains("the captures have no samples"), "{error}");
}

/// Ranks of one capture are of one job. Captures of other programs have ranks of their own.
#[test]
fn ranks_are_compared_within_their_job() {
    let place = CommandFolder::new();
    fs::create_dir_all(place.path("runs")).unwrap();
    for bundled in ["two_ranks", "imports/eight_ranks"] {
        let name = bundled.rsplit('/').next().unwrap();
        let bundled = format!("{}/../../testdata/{bundled}.stallmap", env!("CARGO_MANIFEST_DIR"));
        fs::copy(bundled, place.path(&format!("runs/{name}.stallmap"))).unwrap();
    }
    let sql =
        "SELECT capture, count(*) AS n, round(avg(ratio), 6) AS mean FROM rank_spread GROUP BY 1 ORDER BY 1";
    let expected = "capture,n,mean\neight_ranks.stallmap,8,1.0\ntwo_ranks.stallmap,2,1.0\n";
    assert_eq!(rows(&place, sql), expected);
    let (report, error, code) = run(&place, &["report", "--over", "runs"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(report.contains("and 5 more: -n shows them\n"), "{report}");
}

/// Without labels, captures of different programs are different series.
#[test]
fn programs_have_trends_of_their_own() {
    let place = mixture();
    let sql = "SELECT DISTINCT program FROM trend WHERE kind = 'total' ORDER BY 1";
    assert_eq!(rows(&place, sql), "program\ninference_views.py\nkineto\n");
    let (text, error, code) = run(&place, &["trend", "runs", "--by", "total"]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(text.matches(" of all launches in 1 capture: ").count(), 2, "{text}");
    let row = text.lines().rfind(|line| line.ends_with("all launches")).unwrap();
    assert!(row.contains("kineto") || row.contains(".py"), "{text}");
    assert_eq!(run(&place, &["label", "runs/views.stallmap", "model=one"]).2, Some(0));
    assert_eq!(rows(&place, sql), "program\nkineto\n\"\"\n");
}
