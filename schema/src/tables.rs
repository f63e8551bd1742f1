//! Every table of a capture, in reading order.

use crate::table::{TableDef, TableRow};

pub mod activity;
pub mod block;
pub mod code;
pub mod compiled;
pub mod hlo;
pub mod launch;
pub mod loss;
pub mod memory;
pub mod native;
pub mod python;
pub mod replay;
pub mod run;
pub mod sample;
pub mod tensor;

/// Every table, in reading order.
pub const ALL: &[TableDef] = &[
    run::Run::TABLE,
    run::RunOption::TABLE,
    run::Device::TABLE,
    code::Module::TABLE,
    code::Function::TABLE,
    launch::Launch::TABLE,
    launch::GraphLaunch::TABLE,
    launch::LaunchRun::TABLE,
    activity::GpuActivity::TABLE,
    launch::LaunchCollective::TABLE,
    launch::LaunchParameter::TABLE,
    launch::TensorMap::TABLE,
    launch::LaunchTexture::TABLE,
    python::PythonFrame::TABLE,
    python::PythonState::TABLE,
    python::SourceLine::TABLE,
    native::NativeFrame::TABLE,
    native::NativeState::TABLE,
    compiled::CompiledOrigin::TABLE,
    compiled::TritonKernel::TABLE,
    tensor::Op::TABLE,
    tensor::Storage::TABLE,
    tensor::Tensor::TABLE,
    tensor::OpTensor::TABLE,
    tensor::OpInput::TABLE,
    tensor::OpRange::TABLE,
    tensor::OpMetric::TABLE,
    hlo::HloModule::TABLE,
    hlo::HloInstruction::TABLE,
    hlo::HloSource::TABLE,
    hlo::HloLaunch::TABLE,
    memory::DeviceAllocation::TABLE,
    memory::StorageRequest::TABLE,
    memory::AllocationFailure::TABLE,
    memory::Memcpy::TABLE,
    memory::Memset::TABLE,
    memory::MemoryAccess::TABLE,
    memory::AccessSummary::TABLE,
    memory::AccessHistogram::TABLE,
    sample::PcSample::TABLE,
    block::BlockTime::TABLE,
    block::WarpEvent::TABLE,
    replay::Bundle::TABLE,
    replay::BundlePage::TABLE,
    replay::BundleSymbol::TABLE,
    replay::BundleContent::TABLE,
    replay::Replay::TABLE,
    replay::Counter::TABLE,
    replay::Ablation::TABLE,
    replay::AblationInstruction::TABLE,
    replay::ObjectRedirect::TABLE,
    loss::Loss::TABLE,
];

/// Tables that a later release added: captures of earlier releases lack all of a group, and writers that know one of
/// them write them all.
const ADDED: &[&[TableDef]] = &[
    &[
        replay::Bundle::TABLE,
        replay::BundlePage::TABLE,
        replay::BundleSymbol::TABLE,
        replay::BundleContent::TABLE,
        replay::Replay::TABLE,
        replay::Counter::TABLE,
    ],
    &[launch::GraphLaunch::TABLE],
    &[activity::GpuActivity::TABLE],
    &[memory::AccessSummary::TABLE],
    &[memory::AccessHistogram::TABLE],
    &[python::SourceLine::TABLE],
    &[replay::Ablation::TABLE, replay::AblationInstruction::TABLE],
    &[launch::LaunchCollective::TABLE, tensor::OpInput::TABLE],
    &[tensor::OpRange::TABLE, tensor::OpMetric::TABLE],
    &[compiled::CompiledOrigin::TABLE, compiled::TritonKernel::TABLE],
    &[replay::ObjectRedirect::TABLE],
    &[memory::StorageRequest::TABLE, memory::AllocationFailure::TABLE],
    &[hlo::HloModule::TABLE, hlo::HloInstruction::TABLE, hlo::HloSource::TABLE, hlo::HloLaunch::TABLE],
    &[block::BlockTime::TABLE],
    &[block::WarpEvent::TABLE],
    &[native::NativeFrame::TABLE, native::NativeState::TABLE],
    &[launch::LaunchTexture::TABLE],
];

/// Nullable columns that a later release added to a table: a file of an earlier release lacks them, and they read as
/// null.
const ADDED_COLUMNS: &[(TableDef, &[&str])] = &[
    (run::Run::TABLE, &["parent_process_id", "rank", "local_rank", "world_size"]),
    (run::Device::TABLE, &["uuid", "memory_bus_bits"]),
    (
        launch::Launch::TABLE,
        &["graph_id", "graph_launch", "graph_node", "capture_ordinal", "accesses_of", "native_stack"],
    ),
    (replay::BundlePage::TABLE, &["written_content_id"]),
    (launch::LaunchRun::TABLE, &["sampling_period_cycles", "samples_are_split"]),
    (activity::GpuActivity::TABLE, &["op_id", "call_begin_ns", "call_end_ns", "call_name", "copy_memory"]),
    (memory::DeviceAllocation::TABLE, &["op_id", "pystates_hash", "is_mapped"]),
    (
        memory::Memcpy::TABLE,
        &["row_bytes", "source_pitch", "destination_pitch", "pystates_hash", "native_stack"],
    ),
];

/// True if a file of an earlier release lacks a column of a table. It then reads as null.
pub fn is_added_column(table: &str, column: &str) -> bool {
    ADDED_COLUMNS.iter().any(|(added, columns)| added.name == table && columns.contains(&column))
}

/// True if a capture that holds some tables lacks one that its writer knew.
pub fn is_missing(name: &str, holds: impl Fn(&str) -> bool) -> bool {
    let group = ADDED.iter().find(|group| group.iter().any(|table| table.name == name));
    !holds(name) && group.is_none_or(|group| group.iter().any(|table| holds(table.name)))
}

/// The table of a name.
pub fn by_name(name: &str) -> Option<&'static TableDef> {
    ALL.iter().find(|table| table.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_later_releases_are_missing_only_from_captures_that_have_some() {
        let missing = |held: &[&str], name| is_missing(name, |table| held.contains(&table));
        assert!(missing(&["run"], "launch"));
        assert!(!missing(&["run"], "run"));
        assert!(!missing(&["run"], "replay"));
        assert!(missing(&["run", "bundle"], "replay"));
        assert!(!missing(&["run", "bundle"], "bundle"));
        assert!(!missing(&["run"], "graph_launch"));
    }

    #[test]
    fn added_columns_are_declared_and_nullable() {
        for (table, columns) in ADDED_COLUMNS {
            for name in *columns {
                let column = table.columns.iter().find(|column| column.name == *name);
                assert!(column.is_some_and(|column| column.nullable), "{}.{name}", table.name);
            }
        }
        assert!(!is_added_column("launch", "kernel_id") && !is_added_column("run", "uuid"));
    }
}
