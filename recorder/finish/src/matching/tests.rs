use super::*;

/// A launch of thread 0 on device 0; kernel_id and ordinal are its position.
fn launch(kernel_id: u64, function: u64) -> Described {
    Described {
        kernel_id: KernelId(kernel_id),
        thread_id: 0,
        ordinal: kernel_id,
        likeness: Likeness {
            function_id: FunctionId(function),
            shape: [1, 1, 1, 32, 1, 1],
            node: None,
            device_id: 0,
            dynamic_shared_bytes: Some(0),
            state: None,
            op_name: None,
        },
    }
}

fn on(thread_id: u32, device_id: i32, launch: Described) -> Described {
    Described { thread_id, likeness: Likeness { device_id, ..launch.likeness }, ..launch }
}

fn shared(bytes: Option<u32>, launch: Described) -> Described {
    Described { likeness: Likeness { dynamic_shared_bytes: bytes, ..launch.likeness }, ..launch }
}

fn node(node: u32, launch: Described) -> Described {
    Described { likeness: Likeness { node: Some((Some(0), Some(node))), ..launch.likeness }, ..launch }
}

/// The reference of each launch of the run, in their order.
fn matched(reference: &[Described], run: &[Described]) -> Vec<Result<u64, &'static str>> {
    let matches = match_launches(reference, run);
    run.iter().map(|launch| matches[&launch.kernel_id].map(|kernel_id| kernel_id.0)).collect()
}

#[test]
fn threads_that_race_are_never_matched_across_devices() {
    // The thread of device 1 came first in the second run.
    let reference = [on(0, 0, launch(0, 7)), on(1, 1, launch(1, 7))];
    let run = [on(0, 1, launch(10, 7)), on(1, 0, launch(11, 7))];
    assert_eq!(matched(&reference, &run), [Ok(1), Ok(0)]);
    assert_eq!(matched(&reference[..1], &run[..1]), [Err("other device")]);
}

#[test]
fn threads_are_matched_by_what_they_launch() {
    let reference =
        [on(0, 0, launch(0, 7)), on(0, 0, launch(1, 8)), on(1, 0, launch(2, 7)), on(1, 0, launch(3, 9))];
    // The same two threads, numbered the other way round.
    let run =
        [on(0, 0, launch(10, 7)), on(0, 0, launch(11, 9)), on(1, 0, launch(12, 7)), on(1, 0, launch(13, 8))];
    assert_eq!(matched(&reference, &run), [Ok(2), Ok(3), Ok(0), Ok(1)]);
}

#[test]
fn equal_threads_keep_their_numbers() {
    let reference = [on(0, 0, launch(0, 7)), on(1, 0, launch(1, 7)), on(2, 0, launch(2, 7))];
    let run = [on(2, 0, launch(10, 7)), on(0, 0, launch(11, 7)), on(5, 0, launch(12, 7))];
    assert_eq!(matched(&reference, &run), [Ok(2), Ok(0), Ok(1)]);
}

#[test]
fn shared_memory_counts_where_both_runs_know_it() {
    let reference = [shared(Some(64), launch(0, 7)), shared(Some(128), launch(1, 7))];
    let swapped = [shared(Some(128), launch(10, 7)), shared(Some(64), launch(11, 7))];
    assert_eq!(matched(&reference, &swapped), [Ok(1), Ok(0)]);
    let unknown = [shared(None, launch(10, 7)), shared(None, launch(11, 7))];
    assert_eq!(matched(&reference, &unknown), [Ok(0), Ok(1)]);
    let other = [shared(Some(256), launch(10, 7))];
    assert_eq!(matched(&reference, &other), [Err("other dynamic shared memory")]);
}

#[test]
fn nodes_match_nodes_only() {
    let reference = [launch(0, 7), node(0, launch(1, 7)), node(1, launch(2, 7))];
    let run = [node(1, launch(10, 7)), node(0, launch(11, 7)), node(1, launch(12, 7)), launch(13, 7)];
    let too_many = Err("more occurrences than the reference run");
    assert_eq!(matched(&reference, &run), [Ok(2), Ok(1), too_many, Ok(0)]);
    assert_eq!(matched(&reference, &[node(5, launch(10, 7))]), [Err("other graph or node")]);
}

#[test]
fn reasons_name_the_first_difference() {
    let reference = [launch(0, 7)];
    assert_eq!(matched(&reference, &[launch(10, 8)]), [Err("function not launched in reference run")]);
    let mut run = [launch(10, 7), launch(11, 7), launch(12, 7)];
    run[0].likeness.shape[0] = 2;
    run[1].likeness.op_name = Some("aten::mm".into());
    assert_eq!(
        matched(&reference, &run),
        [Err("other grid or block"), Err("other python state or op"), Ok(0)]
    );
}
