//! Tests of times of blocks: each has the launch of the capture, and none is lost uncounted.

use stallmap_schema::capture::recording::CodeRange;
use stallmap_schema::id::{Address, KernelId, RunId};
use stallmap_schema::tables::block::BlockTime;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::word::{Instrument, Match};

use crate::finish::{finished, kernel_id};
use crate::recording::{self, KERNEL, launch, launch_run, put};

fn block(ordinal: u64, block: u64) -> BlockTime {
    BlockTime {
        run_id: RunId(0),
        kernel_id: KernelId(ordinal),
        block,
        multiprocessor: 7,
        begin_ns: 100,
        end_ns: 200,
    }
}

#[test]
fn blocks_have_the_launches_of_the_access_run() {
    let capture = finished(|partial| {
        let mut segment = recording::segment(partial, "run-blocks-30");
        recording::describe_run(&mut segment, Instrument::Blocks, 30);
        put(
            &mut segment,
            [CodeRange {
                function_id: recording::kernel(),
                module_id: recording::module(),
                name: KERNEL.into(),
                is_kernel: true,
                address: Address(0),
                code_bytes: 0,
                ordinal: 0,
            }],
        );
        for ordinal in 0..4 {
            put(&mut segment, [Launch { op_id: None, pystates_hash: None, ..launch(ordinal) }]);
            put(&mut segment, [LaunchRun { recorded: true, ..launch_run(ordinal) }]);
        }
        // Later launches come first. The row of the last launch was lost.
        put(&mut segment, [block(2, 1), block(2, 0), block(0, 0), block(9, 0)]);
    });
    let runs = capture.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 3);
    assert!(runs.clone().count() == 4 && runs.clone().all(|row| row.matched == Match::Matched));
    let rows = capture.rows::<BlockTime>();
    let placed: Vec<_> = rows.iter().map(|row| (row.run_id.0, row.kernel_id, row.block)).collect();
    assert_eq!(placed, [(3, kernel_id(1, 0), 0), (3, kernel_id(1, 2), 0), (3, kernel_id(1, 2), 1)]);
    let losses = capture.rows::<Loss>().into_iter();
    let lost: u64 =
        losses.filter(|loss| loss.reason == "its launch was not recorded").map(|loss| loss.lost_count).sum();
    assert_eq!(lost, 1);
}
