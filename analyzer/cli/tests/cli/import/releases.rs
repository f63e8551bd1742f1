//! Traces of earlier releases, of other GPUs, and of a window that begins in a running program.

use super::base::{KERNEL_NS, document, events, import, kernel_ns, trace};
use super::{number, rows};
use crate::command::CommandFolder;

#[test]
fn words_of_earlier_releases_are_those_of_today() {
    let place = CommandFolder::new();
    let words = [
        ("\"cpu_op\"", "\"Operator\""),
        ("\"cuda_runtime\"", "\"Runtime\""),
        ("\"kernel\"", "\"Kernel\""),
        ("\"tid\":7", "\"tid\":\"stream 7\""),
    ];
    let mut text = words.iter().fold(trace(), |text, (now, then)| text.replace(now, then));
    let more = [("Memcpy", "Memcpy HtoD (Pageable -> Device)", 4), ("Memset", "Memset (Device)", 1)].map(|(cat, name, dur)| {
        format!(r#",{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":"stream 7","ts":1500,"dur":{dur},"args":{{"bytes":64,"external id":1}}}}"#)
    });
    text = text.replacen("],\"traceName\"", &format!("{}],\"traceName\"", more.concat()), 1);
    import(&place, text, "x.stallmap");
    assert_eq!(kernel_ns(&place, "x.stallmap"), KERNEL_NS);
    let one = |sql: &str| number(&place, "x.stallmap", sql);
    let work = "SELECT CAST(sum(end_ns - begin_ns) AS BIGINT) AS n FROM gpu_activity WHERE kind = ";
    assert_eq!((one(&format!("{work}'copy'")), one(&format!("{work}'fill'"))), (4_000, 1_000));
    assert_eq!(one("SELECT count(*) AS n FROM launch WHERE op_id IS NOT NULL"), 3);
}

#[test]
fn calls_of_other_runtimes_have_their_kernels() {
    let place = CommandFolder::new();
    let text = trace()
        .replace("cuda_runtime", "xpu_runtime")
        .replace("cudaLaunchKernel", "urEnqueueKernelLaunch")
        .replace("\"stream\":7", "\"sycl queue\":64");
    let messages = import(&place, text, "x.stallmap");
    assert!(!messages.contains("without a launch call"), "{messages}");
    assert_eq!(number(&place, "x.stallmap", "SELECT count(*) AS n FROM launch WHERE op_id IS NOT NULL"), 3);
}

#[test]
fn a_kernel_without_a_launch_call_has_no_call_time() {
    let place = CommandFolder::new();
    let events: Vec<String> =
        events("30", "0", 1000).into_iter().filter(|event| !event.contains("\"correlation\":41}")).collect();
    import(&place, document(&events), "x.stallmap");
    let sql = "SELECT call_begin_ns AS called, call_ns, queue_ns FROM launch_timeline ORDER BY begin_ns";
    let found: Vec<bool> = rows(&place, "x.stallmap", sql)
        .iter()
        .map(|row| row["called"].is_null() && row["call_ns"].is_null() && row["queue_ns"].is_null())
        .collect();
    assert_eq!(found, [false, true, false]);
    let gaps = "SELECT cause, next_call_begin_ns AS called FROM gpu_gap ORDER BY begin_ns";
    let found = rows(&place, "x.stallmap", gaps);
    assert!(found[0]["cause"].is_null() && found[0]["called"].is_null(), "{found:?}");
    assert_eq!(found[1]["cause"], "late launch");
    // An export invents none.
    place.run(&["export", "kineto", "x.stallmap", "-o", "again.json"]).expect_ok();
    place.run(&["import", "again.json", "-o", "again.stallmap"]).expect_ok();
    let called = "SELECT count(*) AS n FROM launch_timeline WHERE call_begin_ns IS NOT NULL";
    assert_eq!(number(&place, "again.stallmap", called), 2);
}

#[test]
fn exports_have_the_waits_of_calls() {
    let place = CommandFolder::new();
    let wait = |name: &str, ts: u64| {
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":30,"tid":30,"ts":{ts},"dur":9,"args":{{"correlation":{ts}}}}}"#
        )
    };
    let waits = [wait("cudaStreamSynchronize", 1_070), wait("cudaDeviceSynchronize", 1_090)];
    import(&place, document(&[events("30", "0", 1000), waits.to_vec()].concat()), "x.stallmap");
    place.run(&["export", "kineto", "x.stallmap", "-o", "again.json"]).expect_ok();
    place.run(&["import", "again.json", "-o", "again.stallmap"]).expect_ok();
    let sql = "SELECT synchronization, begin_ns, end_ns FROM gpu_activity WHERE kind = 'synchronization' ORDER BY 2";
    let found = rows(&place, "again.stallmap", sql);
    assert_eq!((found.len(), found), (2, rows(&place, "x.stallmap", sql)));
}

#[test]
fn gaps_before_first_launches_count_in_a_window() {
    let place = CommandFolder::new();
    import(&place, trace(), "x.stallmap");
    let finding = rows(&place, "x.stallmap", "SELECT sentence, query FROM finding_cpu");
    let sentence = finding[0]["sentence"].as_str().unwrap();
    assert!(sentence.contains("in 2 gaps") && sentence.contains("The longest lasts 0.093 ms"), "{sentence}");
    let evidence = rows(&place, "x.stallmap", finding[0]["query"].as_str().unwrap());
    assert_eq!((evidence.len(), evidence[0]["duration_ns"].as_u64()), (2, Some(92_750)));
}

#[test]
fn ops_have_their_step_and_modules_and_calls_have_their_own_stack() {
    let place = CommandFolder::new();
    let event = |cat: &str, name: &str, ts: u64, dur: u64| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":30,"tid":30,"ts":{ts},"dur":{dur},"args":{{}}}}"#
        )
    };
    let mut events = events("30", "0", 1000);
    events.extend([
        event("user_annotation", "ProfilerStep#4", 990, 105),
        event("user_annotation", "ProfilerStep#5", 1095, 200),
        event("python_function", "train.py(3): step", 985, 400),
        // Inside of the op, around the call.
        event("python_function", "custom.py(9): launch", 1003, 20),
        event("python_function", "nn.Module: Net_0", 1090, 180),
        event("python_function", "nn.Module: Linear_1", 1195, 70),
        event("python_function", "torch/autograd/graph.py(829): _engine_run_backward", 1300, 80),
    ]);
    // A bucket of gradients: a collective that autograd's own thread launches.
    let bucket = [
        event("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 1310, 60),
        event("user_annotation", "nccl:all_reduce", 1315, 20),
        event("cuda_runtime", "cudaLaunchKernelExC", 1320, 5).replace("{}", r#"{"correlation":50}"#),
    ];
    events.extend(bucket.map(|event| event.replace(r#""tid":30"#, r#""tid":31"#)));
    let kernel = event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1330, 9);
    let arguments = r#"{"correlation":50,"device":0,"stream":9,"grid":[2,1,1],"block":[64,1,1]}"#;
    events.push(kernel.replace("{}", arguments).replace(r#""pid":30,"tid":30"#, r#""pid":0,"tid":9"#));
    let messages = import(&place, document(&events), "x.stallmap");
    let steps = "SELECT name, step FROM op WHERE kind = 'torch' ORDER BY begin_ns";
    let found: Vec<_> =
        rows(&place, "x.stallmap", steps).iter().map(|row| row["step"].as_u64().unwrap()).collect();
    assert_eq!(found, [0, 1, 1, 1]);
    let steps = "SELECT found_by, program_phase, program_step FROM launch_phase ORDER BY kernel_id";
    let found: Vec<_> = rows(&place, "x.stallmap", steps)
        .iter()
        .map(|row| {
            (row["found_by"] == "range", row["program_phase"] == "steady", row["program_step"].as_u64())
        })
        .collect();
    // The collective is launched behind the last step.
    assert_eq!(
        found,
        [(true, true, Some(0)), (true, true, Some(1)), (true, true, Some(1)), (true, false, None)]
    );
    assert!(!messages.contains("optimizer steps"), "{messages}");
    let modules = "SELECT coalesce(module_path, '-') AS path FROM launch_context ORDER BY kernel_id";
    let found: Vec<_> = rows(&place, "x.stallmap", modules)
        .iter()
        .map(|row| row["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(found, ["-", "Net_0", "Net_0.Linear_1", "-"]);
    let lines = "SELECT l.line FROM launch_context l ORDER BY l.kernel_id";
    let found: Vec<_> = rows(&place, "x.stallmap", lines)
        .iter()
        .map(|row| row["line"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(found, ["custom.py:9 launch", "train.py:3 step", "train.py:3 step", "train.py:3 step"]);
    let tree = place.run(&["tree", "x.stallmap", "--by", "op"]).stdout;
    assert_eq!((tree.matches("ProfilerStep").count(), tree.contains('#')), (1, false), "{tree}");
}

#[test]
fn gaps_before_copies_are_late_copies() {
    let place = CommandFolder::new();
    let mut events = events("30", "0", 1000);
    // The last kernel ends long before.
    events.push(
        r#"{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":9000,"dur":4,"args":{"device":0,"stream":7,"correlation":99,"bytes":64}}"#
            .to_owned(),
    );
    import(&place, document(&events), "x.stallmap");
    let gap = "SELECT cause, next_kind, next_copy_kind FROM gpu_gap ORDER BY begin_ns DESC LIMIT 1";
    let found = rows(&place, "x.stallmap", gap);
    assert_eq!(
        (&found[0]["cause"], &found[0]["next_kind"]),
        (&"late copy".into(), &"copy".into()),
        "{found:?}"
    );
    assert_eq!(found[0]["next_copy_kind"], "host_to_device");
    let finding = rows(&place, "x.stallmap", "SELECT fact, advice FROM finding_cpu");
    assert!(finding[0]["fact"].as_str().unwrap().contains("copies to the GPU come late"), "{finding:?}");
    assert!(finding[0]["advice"].as_str().unwrap().starts_with("Load data ahead"), "{finding:?}");
}

#[test]
fn deep_nests_of_ops_are_read() {
    let place = CommandFolder::new();
    let nested = (0..30_000).map(|level| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"f","pid":30,"tid":30,"ts":{level},"dur":{}}}"#,
            100_000 - 2 * level
        )
    });
    let events: Vec<String> = nested.collect();
    import(&place, document(&events), "x.stallmap");
    let deepest = "SELECT count(*) AS n FROM op WHERE parent_op_id IS NOT NULL";
    assert_eq!(number(&place, "x.stallmap", deepest), 29_999);
}

#[test]
fn a_range_is_the_line_of_what_ops_in_it_launch() {
    let place = CommandFolder::new();
    let mut events = events("30", "0", 1000);
    let ranges = [
        ("train_step", 990, 290),
        ("encoder", 995, 75),
        ("## Call CompiledFxGraph ##", 996, 70),
        ("ProfilerStep#3", 1195, 75),
    ];
    events.extend(ranges.map(|(name, ts, dur)| {
        format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"{name}","pid":30,"tid":30,"ts":{ts},"dur":{dur}}}"#
        )
    }));
    import(&place, document(&events), "x.stallmap");
    let found =
        rows(&place, "x.stallmap", "SELECT line, written_line FROM launch_context ORDER BY kernel_id");
    let found: Vec<_> =
        found.iter().map(|row| (row["line"].as_str(), row["written_line"].as_str())).collect();
    let step = (Some("train_step (range)"), None);
    assert_eq!(found, [(Some("encoder (range)"), Some("encoder (range)")), step, step]);
}
