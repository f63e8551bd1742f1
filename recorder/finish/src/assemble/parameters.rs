//! The tables `launch_parameter` and `tensor_map`.

use stallmap_schema::id::Address;
use stallmap_schema::tables::launch::{LaunchParameter, TensorMap};
use stallmap_schema::tensor_map;
use stallmap_write::CaptureWriter;

use super::append;
use crate::error::FinishError;
use crate::launches;
use crate::loss::LossTotals;
use crate::runs::RunState;

/// Writes the parameters of a run's launches, and the tensor maps in them.
pub(super) fn write(
    run: &mut RunState,
    writer: &mut CaptureWriter,
    losses: &mut LossTotals,
) -> Result<(), FinishError> {
    let parameters = launches::parameters(run, losses);
    let memory = DeviceMemory::from_run(run);
    append(writer, parameters.iter().flat_map(|parameter| tensor_maps(parameter, &memory)))?;
    append(writer, parameters)
}

/// Device memory that a run allocated at any time.
struct DeviceMemory(Vec<(Address, Address)>);

impl DeviceMemory {
    fn from_run(run: &RunState) -> Self {
        let ranges = run
            .rows
            .allocations
            .iter()
            .map(|row| (row.address, Address(row.address.0.saturating_add(row.size_bytes))));
        Self(ranges.collect())
    }

    fn holds(&self, address: Address) -> bool {
        self.0.iter().any(|&(first, end)| first <= address && address < end)
    }
}

fn tensor_maps(parameter: &LaunchParameter, memory: &DeviceMemory) -> Vec<TensorMap> {
    let row = |found: tensor_map::FoundTensorMap| TensorMap {
        kernel_id: parameter.kernel_id,
        parameter_offset: found.parameter_offset,
        address: Address(found.address),
        sizes: found.sizes,
        strides: found.strides,
        box_sizes: found.box_sizes,
        element_type: found.element_type,
        element_bytes: found.element_bytes,
    };
    tensor_map::find(&parameter.bytes.0, |address| memory.holds(Address(address)))
        .into_iter()
        .map(row)
        .collect()
}
