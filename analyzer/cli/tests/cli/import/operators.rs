//! Operator Profiler's files around its profile: manifest, correlations, layers.

use serde_json::{Value, json};

use super::{number, rows};
use crate::command::CommandFolder;

#[test]
fn a_manifest_gives_each_kernel_its_innermost_op() {
    let place = CommandFolder::new();
    let kernel = |name: &str, begin: u32, owners: &[&str]| {
        json!({ "kernel_id": "k", "kernel_name": name, "stream_id": 7, "device_id": 0, "start_ns": begin,
            "end_ns": begin + 10, "duration_ns": 10, "grid_dim": [2, 1, 1], "block_dim": [64, 1, 1],
            "attribution": { "method": "nvtx", "source_operators": owners, "is_fused": owners.len() > 1 } })
    };
    let kernels = [
        kernel("a", 100, &["aten::mm", "aten::linear"]),
        kernel("b", 120, &["aten::mm"]),
        kernel("c", 140, &[]),
    ];
    let manifest = json!({ "schema_version": "1.0", "capture_metadata": { "device_name": "GPU" }, "warnings": [],
        "kernels": kernels });
    place.file("manifest.json", manifest.to_string());
    place.run(&["import", "manifest.json", "-o", "m.stallmap"]).expect_ok();
    place.run(&["check", "m.stallmap"]).expect_ok();
    let by_op = "SELECT coalesce(o.name, '-') AS op, count(*) AS n FROM launch l LEFT JOIN op o ON o.op_id = l.op_id \
         GROUP BY o.name ORDER BY o.name NULLS LAST";
    let found = rows(&place, "m.stallmap", by_op);
    assert_eq!(found, vec![json!({ "op": "aten::mm", "n": 2 }), json!({ "op": "-", "n": 1 })]);
}

/// A manifest of two layers of the same form. Kernels have times, three have no op.
fn manifest() -> Value {
    let kernel = |name: &str, begin: u32, owner: Option<&str>, layer: &str| {
        json!({ "kernel_name": name, "stream_id": 7, "device_id": 0, "start_ns": begin, "end_ns": begin + 10,
            "grid_dim": [2, 1, 1], "block_dim": [64, 1, 1], "layer_partition": layer,
            "attribution": { "source_operators": owner.into_iter().collect::<Vec<_>>() } })
    };
    let gemm = "void cutlass::Kernel<(anonymous namespace)::T<4>>(int*)";
    json!({ "schema_version": "1.0", "kernels": [
        kernel(gemm, 100, Some("aten::mm, op_id = 7"), "blocks_0"),
        kernel("triton_poi_0", 120, None, "blocks_0"),
        kernel(gemm, 140, Some("aten::bmm"), "blocks_1"),
        kernel("triton_poi_0", 160, None, "blocks_1"),
        kernel("triton_red_1", 180, None, "blocks_1"),
    ] })
}

fn correlation() -> Value {
    let entry = |name: &str, number: u32, op: &str| json!({ "kernel_name": name, "invocation": number, "op_name": op });
    json!({ "schema_version": "1.0", "entries": [
        entry("triton_poi_0", 1, "aten::relu"),
        entry("triton_poi_0", 0, "aten::gelu"),
        entry("Kernel", 0, "aten::mm"),
        entry("Kernel", 1, "aten::mm"),
        entry("triton_red_1", 0, "aten::sum"),
        entry("triton_red_1", 1, "aten::sum"),
    ] })
}

const BY_KERNEL: &str = "SELECT coalesce(o.name, '-') AS op, coalesce(p.name, '-') AS layer FROM launch l \
     LEFT JOIN op o ON o.op_id = l.op_id LEFT JOIN op p ON p.op_id = o.parent_op_id ORDER BY l.kernel_id";

fn owners(place: &CommandFolder, capture: &str) -> Vec<String> {
    let found = rows(place, capture, BY_KERNEL);
    found
        .iter()
        .map(|row| format!("{} {}", row["op"].as_str().unwrap(), row["layer"].as_str().unwrap()))
        .collect()
}

#[test]
fn layers_of_a_manifest_are_regions_around_its_ops() {
    let place = CommandFolder::new();
    place.file("manifest.json", manifest().to_string());
    place.run(&["import", "manifest.json", "-o", "m.stallmap"]).expect_ok();
    place.run(&["check", "m.stallmap"]).expect_ok();
    let expected =
        ["aten::mm, op_id = 7 blocks_0", "blocks_0 -", "aten::bmm blocks_1", "blocks_1 -", "blocks_1 -"];
    assert_eq!(owners(&place, "m.stallmap"), expected);
    place.file("layers.json", r#"{"blocks_1": "blocks_0"}"#);
    place.run(&["import", "manifest.json", "layers.json", "-o", "l.stallmap"]).expect_ok();
    place.run(&["check", "l.stallmap"]).expect_ok();
    let copied = "SELECT lost_count AS n FROM loss WHERE reason LIKE 'kernels of layers whose counters the tool copies%'";
    assert_eq!(number(&place, "l.stallmap", copied), 3);
    let fact = "SELECT count(*) AS n FROM run_option WHERE name = 'operator_profiler.layer.blocks_1' AND value = 'blocks_0'";
    assert_eq!(number(&place, "l.stallmap", fact), 1);
}

#[test]
fn correlations_give_ops_where_both_runs_have_the_same_kernels() {
    let place = CommandFolder::new();
    let mut profile = manifest();
    for kernel in profile["kernels"].as_array_mut().unwrap() {
        kernel.as_object_mut().unwrap().remove("layer_partition");
    }
    place.file("manifest.json", profile.to_string());
    place.file("corr.json", correlation().to_string());
    place.file("none.json", "{}");
    place.run(&["import", "manifest.json", "corr.json", "none.json", "-o", "x.stallmap"]).expect_ok();
    place.run(&["check", "x.stallmap"]).expect_ok();
    // By its number, not by its place in the file. The third name has one kernel and two entries.
    let expected = ["aten::mm, op_id = 7 -", "aten::gelu -", "aten::bmm -", "aten::relu -", "- -"];
    assert_eq!(owners(&place, "x.stallmap"), expected);
    let rate = "SELECT value FROM run_option WHERE name = 'joined.correlation'";
    let expected = "2 kernels got an op, 1 had the same, 1 another, 1 no equal number";
    assert_eq!(rows(&place, "x.stallmap", rate)[0]["value"], expected);
    let lost = "SELECT lost_count AS n FROM loss WHERE reason LIKE '%another number of entries%'";
    assert_eq!(number(&place, "x.stallmap", lost), 1);
    place.run(&["import", "corr.json", "-o", "c.stallmap"]).expect_ok();
    place.run(&["check", "c.stallmap"]).expect_ok();
    assert_eq!(number(&place, "c.stallmap", "SELECT count(*) AS n FROM launch WHERE op_id IS NOT NULL"), 6);
}

#[test]
fn files_without_a_profile_and_odd_ones_are_errors() {
    let place = CommandFolder::new();
    place.file("manifest.json", manifest().to_string());
    for (name, content) in [
        ("layers", r#"{"a": "b"}"#),
        ("numbers", r#"{"a": 1}"#),
        ("entries", r#"{"entries": []}"#),
        ("nameless", r#"{"entries": [{"invocation": 0}, 7, null]}"#),
        ("cut", r#"{"entries": [{"kernel_name": "k""#),
    ] {
        place.file(name, content);
        place.run(&["import", name, "-o", "x.stallmap"]).expect_error(5);
    }
    place.run(&["import", "layers", "manifest.json", "-o", "x.stallmap"]).expect_error(2);
}
