//! Tests of launch calls that fail.

use std::sync::OnceLock;

use super::*;

fn launch(is_recorded: bool) -> OpenCall {
    let kernel = SampledKernel { name: "add".into(), taken: Ok(()), function_id: OnceLock::new() };
    OpenCall::Launch(Box::new(PendingLaunch {
        ordinal: 0,
        kernel: Arc::new(kernel),
        call: LaunchCall::of_one_block(),
        context: DriverHandle::NULL,
        begin_ns: 0,
        is_recorded,
        sampling: None,
        replayed: None,
    }))
}

#[test]
fn a_launch_that_was_lost_when_it_began_is_not_lost_again_where_the_driver_refuses_it() {
    assert_eq!(launch(true).uncounted(), 1);
    // Another process samples the GPU.
    assert_eq!(launch(false).uncounted(), 0);
    let graph = |lost| OpenCall::Graph(Box::new(PendingGraph::of_nodes(3, lost)));
    assert_eq!([0, 2, 3].map(|lost| graph(lost).uncounted()), [3, 1, 0]);
}
