//! The tables `launch_parameter`, `tensor_map` and `texture`.

use std::collections::BTreeMap;

use stallmap_schema::capture::recording::TextureEvent;
use stallmap_schema::id::{Address, KernelId};
use stallmap_schema::tables::launch::{LaunchParameter, LaunchTexture, TensorMap};
use stallmap_schema::tensor_map;
use stallmap_write::CaptureWriter;

use super::append;
use crate::error::FinishError;
use crate::launches;
use crate::loss::LossTotals;
use crate::runs::RunState;

/// Writes the parameters of a run's launches, and the tensor maps and textures in them.
pub(super) fn write(
    run: &mut RunState,
    writer: &mut CaptureWriter,
    losses: &mut LossTotals,
) -> Result<(), FinishError> {
    let parameters = launches::parameters(run, losses);
    let memory = DeviceMemory::from_run(run);
    append(writer, parameters.iter().flat_map(|parameter| tensor_maps(parameter, &memory)))?;
    let made = MadeTextures::from_events(std::mem::take(&mut run.rows.textures));
    let ordinals = run.rows.launches.iter().map(|launch| (launch.kernel_id, launch.ordinal)).collect();
    append(writer, parameters.iter().flat_map(|parameter| made.of_launch(parameter, &ordinals)))?;
    append(writer, parameters)
}

/// Bytes of a handle, on which it lies too.
const HANDLE_BYTES: usize = 8;

/// The textures and surfaces that a run made, by handle and kind, in the order of their making.
struct MadeTextures(BTreeMap<(u64, bool), Vec<TextureEvent>>);

impl MadeTextures {
    fn from_events(mut events: Vec<TextureEvent>) -> Self {
        events.sort_by_key(|event| event.ordinal);
        let mut made = BTreeMap::<(u64, bool), Vec<TextureEvent>>::new();
        for event in events {
            made.entry((event.handle, event.is_surface)).or_default().push(event);
        }
        Self(made)
    }

    /// Textures and surfaces whose handles are words of a launch's parameters.
    fn of_launch(
        &self,
        parameter: &LaunchParameter,
        ordinals: &BTreeMap<KernelId, u64>,
    ) -> Vec<LaunchTexture> {
        let Some(&ordinal) = ordinals.get(&parameter.kernel_id).filter(|_| !self.0.is_empty()) else {
            return Vec::new();
        };
        let words =
            parameter.bytes.0.as_chunks::<HANDLE_BYTES>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut found = Vec::new();
        for (parameter_offset, handle) in (0..).step_by(HANDLE_BYTES).zip(words) {
            for is_surface in [false, true] {
                let made = self.0.get(&(handle, is_surface)).map(Vec::as_slice).unwrap_or_default();
                let before = made.partition_point(|one| one.ordinal <= ordinal);
                let last = made.get(..before).and_then(<[TextureEvent]>::last);
                found.extend(last.map(|one| texture(parameter.kernel_id, parameter_offset, one)));
            }
        }
        found
    }
}

fn texture(kernel_id: KernelId, parameter_offset: u32, made: &TextureEvent) -> LaunchTexture {
    LaunchTexture {
        kernel_id,
        parameter_offset,
        is_surface: made.is_surface,
        handle: made.handle,
        address: made.address,
        size_bytes: made.size_bytes,
        width: made.width,
        height: made.height,
        depth: made.depth,
        pitch_bytes: made.pitch_bytes,
        format: made.format,
        channel_count: made.channel_count,
    }
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

#[cfg(test)]
mod tests {
    use stallmap_schema::cell::Blob;

    use super::*;

    #[test]
    fn a_handle_is_that_of_the_last_texture_before_the_launch() {
        let made = |handle, is_surface, ordinal, address| TextureEvent {
            handle,
            is_surface,
            ordinal,
            address: Address(address),
            ..TextureEvent::default()
        };
        let events = [made(2, false, 0, 0x1000), made(2, true, 0, 0x2000), made(2, false, 5, 0x3000)];
        let made = MadeTextures::from_events(events.to_vec());
        let ordinals = BTreeMap::from([(KernelId(1), 4), (KernelId(2), 5)]);
        let found = |kernel_id: u64, words: [u64; 2]| {
            let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let parameter = LaunchParameter {
                kernel_id: KernelId(kernel_id),
                bytes: Blob(bytes),
                ..LaunchParameter::default()
            };
            let found = made.of_launch(&parameter, &ordinals);
            found.iter().map(|one| (one.parameter_offset, one.is_surface, one.address.0)).collect::<Vec<_>>()
        };
        assert_eq!(found(1, [7, 2]), [(8, false, 0x1000), (8, true, 0x2000)]);
        assert_eq!(found(2, [2, 7]), [(0, false, 0x3000), (0, true, 0x2000)]);
        assert_eq!(found(1, [7, 7]), []);
        assert_eq!(found(9, [2, 2]), []);
    }
}
