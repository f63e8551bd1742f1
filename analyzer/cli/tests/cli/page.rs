//! `stallmap report --html`: a page that is complete, bounded, and lists its queries.

use std::fs;
use std::path::Path;

use crate::command::CommandFolder;
use crate::many;

const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The page of a capture in the folder.
#[track_caller]
fn page(place: &CommandFolder, capture: &str) -> String {
    let ran = place.run(&["report", capture, "--html", "page.html", "--source-root", ROOT]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    fs::read_to_string(place.path("page.html")).unwrap()
}

/// Text as a reader sees it.
fn unescaped(text: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, char)| text.replace(entity, char))
}

/// Each text between two markers.
fn between<'a>(text: &'a str, begin: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(begin).skip(1).filter_map(move |rest| rest.split(end).next())
}

/// The sections: anchor and markup.
fn sections(page: &str) -> Vec<(&str, &str)> {
    between(page, "<section id=\"", "</section>").map(|section| section.split_once('"').unwrap()).collect()
}

#[test]
fn every_section_says_the_queries_whose_rows_it_shows() {
    let place = CommandFolder::new();
    let page = page(&place, "tiny.stallmap");
    let sections = sections(&page);
    assert_eq!(sections.first().map(|section| section.0), Some("verdict"));
    assert_eq!(sections.iter().rev().nth(1).map(|section| section.0), Some("losses"));
    assert_eq!(sections.last().map(|section| section.0), Some("coverage"));
    let mut tables = 0;
    for (id, section) in sections {
        let queries: Vec<String> =
            between(section, "<pre tabindex=\"0\"><code>", "</code></pre>").map(unescaped).collect();
        assert!(!queries.is_empty(), "{id}");
        let mut rows = Vec::new();
        for query in &queries {
            let file = place.file("query.sql", query);
            let ran = place.run(&["sql", "tiny.stallmap", "-f", file.to_str().unwrap(), "--format", "jsonl"]);
            assert_eq!(ran.code, Some(0), "{id}: {query}\n{}", ran.stderr);
            rows.push(ran.stdout.lines().count());
        }
        // Tables in the order of their queries. Code has none of its own, and the forest combines several.
        if !["code", "forest"].contains(&id) {
            let shown: Vec<usize> =
                between(section, "<tbody>", "</tbody>").map(|body| body.matches("<tr").count()).collect();
            assert!(
                shown.iter().zip(&rows).all(|(shown, rows)| shown == rows),
                "{id}: {shown:?} of {rows:?}"
            );
            tables += shown.len();
        }
    }
    assert!(tables >= 8, "{tables}");
    assert!(page == self::page(&place, "tiny.stallmap"), "the same capture gives another page");
}

#[test]
fn a_page_needs_nothing_and_its_links_lead_somewhere() {
    let place = CommandFolder::new();
    for name in ["training_parts.stallmap", "transformer_step.stallmap"] {
        let page = page(&place, Path::new(TESTDATA).join(name).to_str().unwrap());
        assert!(page.len() <= 660_000, "{name}: {} bytes", page.len());
        check_whole(&page);
    }
}

#[track_caller]
fn check_whole(page: &str) {
    assert!(page.len() < 5 << 20, "{} bytes", page.len());
    assert!(page.contains("default-src 'none'; style-src 'nonce-"));
    let text = page.split("<script nonce").next().unwrap();
    for loaded in
        ["<link", "<img", "<iframe", "<object", "<base", " src=", " style=", "@import", "http://", "https://"]
    {
        assert_eq!(text.matches(loaded).count(), 0, "{loaded}");
    }
    let ids: Vec<&str> = between(text, " id=\"", "\"").collect();
    for target in between(text, "href=\"#", "\"") {
        assert_eq!(ids.iter().filter(|id| **id == target).count(), 1, "#{target}");
    }
}

/// A hostile name.
fn hostile(name: &str) -> String {
    format!(
        "</script><script>alert(1)</script><!--\"'><img src=x onerror=alert(2)>\u{2028}\u{202e}{name}\u{1b}[31m&lt;"
    )
}

#[test]
fn nothing_that_a_capture_holds_becomes_markup() {
    let place = CommandFolder::new();
    many::write(&place.path("hostile.stallmap"), 300, hostile).unwrap();
    let page = page(&place, "hostile.stallmap");
    assert_eq!(page.matches("<script").count(), 2, "data and script");
    assert_eq!(page.matches("</script").count(), 2);
    for wrong in ["<!--", "<img", "\u{2028}", "\u{202e}", "\u{1b}"] {
        assert!(!page.contains(wrong), "{wrong:?}");
    }
    assert!(page.contains("&lt;img src=x onerror=alert(2)&gt;"));
    let data = data(&page);
    let names = data["paths"]["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    assert!(names.into_iter().any(|name| name.contains("</script><script>")));
}

#[test]
fn a_page_of_ten_thousand_launches_is_small_and_adds_up() {
    let place = CommandFolder::new();
    many::write(&place.path("many.stallmap"), 10_000, str::to_owned).unwrap();
    let page = page(&place, "many.stallmap");
    check_whole(&page);
    let data = data(&page);
    let nodes = data["paths"]["rows"].as_array().unwrap();
    assert!(nodes.len() <= 4_000, "{}", nodes.len());
    let samples = |node: &serde_json::Value| node[3][0].as_f64().unwrap();
    let mut below = vec![0.0; nodes.len()];
    for node in nodes {
        if let Some(parent) = node[0].as_u64() {
            below[usize::try_from(parent).unwrap()] += samples(node);
        }
    }
    let is_parent: Vec<bool> = below.iter().map(|below| *below > 0.0).collect();
    for ((node, below), is_parent) in nodes.iter().zip(below).zip(is_parent) {
        assert!(!is_parent || (samples(node) - below).abs() < 1e-6, "{node}: {below}");
    }
    // Samples of launch n: 1 + n % 97.
    let taken: u64 = (0..10_000_u64).map(|number| number % 97 + 1).sum();
    assert!((samples(&nodes[0]) - taken as f64).abs() < 1e-6);
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    let ran = CommandFolder::new().run(&["report", "tiny.stallmap", "--html", "missing/page.html"]);
    ran.expect_error(5);
}

/// Data of the page's script.
fn data(page: &str) -> serde_json::Value {
    let data = between(page, "id=\"data\"", "</script>").next().unwrap().split_once('>').unwrap().1;
    serde_json::from_str(data).unwrap()
}

#[test]
fn what_was_accessed_is_drawn_where_nothing_was_sampled() {
    let place = CommandFolder::new();
    let packed = place.run(&["pack", "tiny.stallmap", "unsampled.stallmap", "--without", "samples"]);
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let data = data(&page(&place, "unsampled.stallmap"));
    let kinds = data["heat"]["tensors"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds.flat_map(|tensor| tensor["kinds"].as_array().unwrap()).collect();
    assert!(!kinds.is_empty());
    for kind in kinds {
        // Runs of equal values: value and length by turns.
        let sum = |layer: usize| -> f64 {
            let runs: Vec<f64> =
                kind["layers"][layer].as_array().unwrap().iter().map(|run| run.as_f64().unwrap()).collect();
            runs.chunks(2).map(|run| run[0] * run[1]).sum()
        };
        assert!(sum(0) > 0.0, "{kind}");
        assert!(sum(4).abs() < f64::EPSILON, "blamed samples: {kind}");
        assert!(kind["share"].as_f64().unwrap() > 0.0, "{kind}");
    }
}

#[test]
fn a_page_without_tensors_says_why_nothing_is_drawn() {
    let place = CommandFolder::new();
    many::write(&place.path("bare.stallmap"), 20, str::to_owned).unwrap();
    let page = page(&place, "bare.stallmap");
    let (_, section) = *sections(&page).iter().find(|(id, _)| *id == "accesses").unwrap();
    assert!(section.contains("`launch_cell`") && section.contains("FROM target_context"), "{section}");
    assert!(!section.contains("<table"), "{section}");
}

#[test]
fn a_comparison_is_a_page_with_the_code_of_both() {
    let place = CommandFolder::new();
    let [base, other] =
        ["inference_views_contiguous", "inference_views"].map(|name| format!("{TESTDATA}/{name}.stallmap"));
    let gate = ["--fail-if", "time > +5% beyond noise"];
    let ran = place.run(&["diff", &base, &other, "--html", "diff.html", gate[0], gate[1]]);
    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    let page = fs::read_to_string(place.path("diff.html")).unwrap();
    check_whole(&page);
    let text = place.run(&["diff", &base, &other]).expect_ok().stdout.clone();
    let sentence = between(&page, "class=\"sentence\">", "</p>").next().map(unescaped);
    assert_eq!(sentence.as_deref(), text.lines().next());
    let code: Vec<&str> = between(&page, "<h3 class=\"code\">", "</h3>").collect();
    assert_eq!(code, ["a: inference_views.py:33 add_transposed", "b: inference_views.py:31 add_transposed"]);
    assert!(page.contains("! fails: time &gt; +5% beyond noise"));
}

#[test]
fn a_report_has_the_changes_since_a_baseline() {
    let place = CommandFolder::new();
    many::write(&place.path("hostile.stallmap"), 300, hostile).unwrap();
    let arguments = ["--baseline", "hostile.stallmap", "--html", "page.html"];
    place.run(&[&["report", "hostile.stallmap"][..], &arguments].concat()).expect_ok();
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert_eq!(page.matches("<script").count(), 2, "data and script");
    let places: Vec<&str> = sections(&page).iter().map(|section| section.0).take(2).collect();
    assert_eq!(places, ["verdict", "change"]);
    place.run(&["report", "tiny.stallmap", "--baseline", "tiny.stallmap"]).expect_error(2);
}

#[test]
fn work_by_stream_is_all_measured_work() {
    let place = CommandFolder::new();
    let capture = format!("{TESTDATA}/time_truth.stallmap");
    let page = page(&place, &capture);
    let sections = sections(&page);
    let (_, section) = *sections.iter().find(|(id, _)| *id == "timeline").unwrap();
    let query =
        between(section, "<pre tabindex=\"0\"><code>", "</code></pre>").map(unescaped).next().unwrap();
    let body: String = query.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
    let sum = |sql: &str| {
        let rows = place.run(&["sql", &capture, "--format", "csv", "-c", sql]).expect_ok().stdout.clone();
        rows.lines().nth(1).map(str::to_owned)
    };
    let drawn =
        sum(&format!("SELECT sum(kernel_ns), sum(copy_ns) FROM ({})", body.trim_end().trim_end_matches(';')));
    let measured = sum("SELECT sum(CASE WHEN kind = 'kernel' THEN end_ns - begin_ns END), \
                        sum(CASE WHEN kind IN ('copy', 'fill') THEN end_ns - begin_ns END) FROM gpu_activity");
    assert!(drawn.is_some() && drawn == measured, "{drawn:?} {measured:?}");
}

#[test]
fn blocks_over_time_are_those_of_the_grids() {
    let place = CommandFolder::new();
    fs::copy(Path::new(TESTDATA).join("block_truth.stallmap"), place.path("blocks.stallmap")).unwrap();
    let data = data(&page(&place, "blocks.stallmap"));
    let mut drawn = Vec::new();
    for launch in data["waves"].as_array().unwrap() {
        let lanes = launch["lanes"].as_array().unwrap();
        let numbers = |lane: &serde_json::Value| -> Vec<i64> {
            lane[1].as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
        };
        let mut blocks: Vec<i64> = lanes
            .iter()
            .flat_map(|lane| numbers(lane).chunks(4).map(|block| block[0]).collect::<Vec<_>>())
            .collect();
        blocks.sort_unstable();
        assert_eq!(blocks, (0..launch["blocks"].as_i64().unwrap()).collect::<Vec<_>>());
        let kernel = launch["name"].as_str().unwrap().split(',').next().unwrap().to_owned();
        drawn.push((kernel, lanes.len(), blocks.len()));
    }
    // Kernels with the most empty slots first: each has all of its blocks, on all 132 multiprocessors.
    let expected = [("uneven", 1056), ("even", 4524), ("tiles", 132), ("barriers", 528), ("leaving", 528)];
    assert_eq!(drawn, expected.map(|(kernel, blocks)| (kernel.to_owned(), 132, blocks)));
}
