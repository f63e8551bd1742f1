//! The launches, their runs and parameters.

use super::python::inner_state;
use super::python::outer_state;
use super::{ACCESSES, COUNTERS, REUSED, SAMPLES, add, at, gather, kernel, op};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::cell::Blob;
use stallmap_schema::id::{Address, RunId};
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::launch::{
    GraphLaunch, Launch, LaunchCollective, LaunchParameter, LaunchRun, TensorMap,
};
use stallmap_schema::word::{ActivityKind, CollectiveKind, Match, SynchronizationKind};
use stallmap_write::CaptureWriter;

pub(super) fn launches(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    // Of each launch: the function, its op, its n-th occurrence.
    let launches = [(gather(), 2, inner_state()), (add(), 3, outer_state()), (add(), 4, outer_state())];
    writer.append_rows((0_u64..).zip(launches).map(|(ordinal, (function_id, number, state))| Launch {
        kernel_id: kernel(ordinal),
        run_id: ACCESSES,
        function_id,
        ordinal,
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        block_x: 64,
        block_y: 1,
        block_z: 1,
        register_count: Some(16),
        op_id: Some(op(number)),
        pystates_hash: Some(state),
        dynamic_shared_bytes: Some(0),
        static_shared_bytes: Some(0),
        local_bytes: Some(0),
        ..Launch::default()
    }))?;
    launch_runs(writer)?;
    parameters(writer)
}

fn launch_runs(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let requests = [(4, 128), (4, 128), (3, 65)];
    let sample_counts = [(100, Some(4)), (10, Some(0)), (12, Some(0))];
    let run = |run_id: RunId, ordinal: u64| LaunchRun {
        run_id,
        ordinal,
        kernel_id: kernel(ordinal),
        matched: if run_id == ACCESSES { Match::Reference } else { Match::Matched },
        correlation_id: (run_id == SAMPLES).then_some(ordinal + 1),
        begin_ns: at(10 + 10 * i64::try_from(ordinal).unwrap_or(0)),
        end_ns: Some(at(12 + 10 * i64::try_from(ordinal).unwrap_or(0))),
        recorded: true,
        ..LaunchRun::default()
    };
    writer.append_rows((0_u64..).zip(requests).map(|(ordinal, (request_count, lanes))| LaunchRun {
        request_count: Some(request_count),
        lane_access_count: Some(lanes),
        lost_request_count: Some(0),
        ..run(ACCESSES, ordinal)
    }))?;
    writer.append_rows((0_u64..).zip(sample_counts).map(|(ordinal, (taken, lost))| LaunchRun {
        sample_count: Some(taken),
        lost_sample_count: lost,
        ..run(SAMPLES, ordinal)
    }))?;
    writer.append_rows([LaunchRun {
        ordinal: 0,
        matched: Match::Replayed,
        begin_ns: at(210),
        end_ns: Some(at(211)),
        ..run(COUNTERS, 1)
    }])
}

fn parameters(writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    // A graph without kernels.
    writer.append_rows([GraphLaunch {
        run_id: ACCESSES,
        ordinal: 3,
        begin_ns: at(60),
        end_ns: Some(at(61)),
        ..GraphLaunch::default()
    }])?;
    // A wait: no launch has a measured time.
    writer.append_rows([GpuActivity {
        run_id: ACCESSES,
        kind: ActivityKind::Synchronization,
        begin_ns: at(60),
        end_ns: Some(at(61)),
        synchronization: Some(SynchronizationKind::Stream),
        correlation_id: Some(7),
        stream_id: Some(0),
        ..GpuActivity::default()
    }])?;
    writer.append_rows([LaunchCollective {
        kernel_id: kernel(2),
        kind: CollectiveKind::AllReduce,
        call_name: Some("allreduce".to_owned()),
        in_element_count: Some(64),
        out_element_count: Some(64),
        dtype: Some("float32".to_owned()),
        element_bytes: Some(4),
        group_name: Some("0".to_owned()),
        group_description: Some("default_pg".to_owned()),
        group_ranks: Some("[0, 1]".to_owned()),
        group_size: Some(2),
        sequence_number: Some(1),
        match_id: None,
    }])?;
    writer.append_rows((0..3).map(|ordinal| LaunchParameter {
        kernel_id: kernel(ordinal),
        bytes: Blob(REUSED.to_le_bytes().to_vec()),
        offsets: vec![0],
        sizes: vec![8],
    }))?;
    writer.append_rows([TensorMap {
        kernel_id: kernel(2),
        parameter_offset: 0,
        address: Address(REUSED),
        sizes: vec![16, 4],
        strides: vec![64],
        box_sizes: vec![16, 2],
        element_type: Some(7),
        element_bytes: Some(4),
    }])
}
