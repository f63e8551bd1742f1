//! Every table of a capture, in reading order.

use crate::table::{Row, TableDef};

pub mod code;
pub mod launch;
pub mod loss;
pub mod memory;
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
    launch::LaunchRun::TABLE,
    launch::LaunchParameter::TABLE,
    launch::TensorMap::TABLE,
    python::PythonFrame::TABLE,
    python::PythonState::TABLE,
    tensor::Op::TABLE,
    tensor::Storage::TABLE,
    tensor::Tensor::TABLE,
    tensor::OpTensor::TABLE,
    memory::DeviceAllocation::TABLE,
    memory::Memcpy::TABLE,
    memory::Memset::TABLE,
    memory::MemoryAccess::TABLE,
    sample::PcSample::TABLE,
    replay::Bundle::TABLE,
    replay::BundlePage::TABLE,
    replay::BundleSymbol::TABLE,
    replay::BundleContent::TABLE,
    replay::Replay::TABLE,
    replay::Counter::TABLE,
    loss::Loss::TABLE,
];

/// The table of a name.
pub fn by_name(name: &str) -> Option<&'static TableDef> {
    ALL.iter().find(|table| table.name == name)
}
