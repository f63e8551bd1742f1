//! Buffers of compiled programs: storages and tensors in XLA's one allocation.
//!
//! XLA gives each program blocks of memory: one for each argument and result, one for all temporaries. A kernel's
//! parameters are pointers into them, in the order of its thunk's arguments. So the parameters of a launch give the
//! address of each argument, and a block's address holds for the library calls around the launch.

use std::collections::BTreeMap;

use stallmap_schema::id::{Address, KernelId, OpId, RunId, StorageId, TensorId};
use stallmap_schema::tables::launch::{Launch, LaunchParameter};
use stallmap_schema::tables::tensor::{OpTensor, Storage, Tensor};
use stallmap_schema::tensor_map;
use stallmap_schema::word::{Direction, StorageOrigin};

use crate::blocks::{BufferRole, ProgramBlocks, ValueMaker};
use crate::plan::LaunchPlan;
use crate::shape::ArrayShape;
use crate::thunk::BufferSlice;

/// Bytes of a pointer.
const POINTER_BYTES: u32 = 8;
/// Bytes of a CUtensorMap.
const TENSOR_MAP_BYTES: u32 = 128;

/// The buffers of a run so far.
#[derive(Debug, Default)]
pub struct RunBuffers {
    /// Rows of `storage`.
    pub storages: Vec<Storage>,
    /// Rows of `tensor`.
    pub tensors: Vec<Tensor>,
    /// Rows of `op_tensor`.
    pub op_tensors: Vec<OpTensor>,
    /// Live buffers: device and first address to the storage's index.
    live: BTreeMap<(i32, u64), usize>,
    roles: Vec<BufferRole>,
    names: Vec<Option<String>>,
    /// The instruction that wrote each last.
    writers: Vec<String>,
    /// The last launch that used each.
    used: Vec<u64>,
    views: BTreeMap<(usize, u64, Vec<u8>), usize>,
    /// Addresses of blocks in the running execution, by device and program.
    bases: BTreeMap<(i32, usize, u64), u64>,
    /// The last step of each program, by device.
    steps: BTreeMap<(i32, usize), usize>,
    /// Launches whose parameters are not the arguments of their thunk.
    pub unknown: u64,
    first_storage: u64,
    first_tensor: u64,
}

/// One launch, or the library call that made it.
pub struct BufferLaunch<'l, 'm, 'a> {
    /// The launch.
    pub launch: &'l Launch,
    /// Its op.
    pub op_id: OpId,
    /// Its program.
    pub program: usize,
    /// The step of the program's plan.
    pub step: usize,
    /// The plan.
    pub plan: &'l LaunchPlan<'m, 'a>,
    /// The program's blocks.
    pub blocks: &'l ProgramBlocks,
    /// Its parameters. `None` for a library's kernel.
    pub parameters: Option<&'l LaunchParameter>,
    /// Time of the launch, nanoseconds since the Unix epoch.
    pub time_ns: i64,
}

impl RunBuffers {
    /// No buffers yet. The numbers are those of the first rows.
    pub fn new(first_storage: u64, first_tensor: u64) -> Self {
        Self { first_storage, first_tensor, ..Self::default() }
    }

    /// Adds the buffers of a launch.
    pub fn add(&mut self, launch: &BufferLaunch<'_, '_, '_>) {
        self.begin_execution(launch);
        let slices = launch.plan.buffers(launch.step);
        if slices.is_empty() {
            return;
        }
        let Some(addresses) = self.addresses(launch, slices) else { return };
        let (mut inputs, mut outputs) = (0, 0);
        let parts: Vec<(u64, u64)> =
            addresses.iter().copied().zip(slices.iter().map(|slice| slice.size)).collect();
        for (index, (slice, address)) in slices.iter().zip(addresses).enumerate() {
            let part = (address, slice.size);
            // A buffer that is updated in place is an argument and a result.
            let is_updated = parts.iter().filter(|other| **other == part).count() > 1;
            if is_updated && parts.iter().position(|other| *other == part) != Some(index) {
                continue;
            }
            let slice = &BufferSlice { is_written: slice.is_written && !is_updated, ..*slice };
            let storage = self.storage(launch, index, slice, address);
            if is_updated {
                let writer =
                    launch.plan.steps.get(launch.step).map_or("", |(_, instruction)| instruction.name);
                self.touch(storage, launch, writer);
            }
            let position = if slice.is_written { &mut outputs } else { &mut inputs };
            let direction = match slice.is_written {
                _ if is_updated => Direction::InOut,
                true => Direction::Out,
                false => Direction::In,
            };
            if let Some(tensor) = self.tensor(launch, storage, slice, address) {
                self.op_tensors.push(OpTensor {
                    op_id: launch.op_id,
                    direction,
                    position: *position,
                    element: 0,
                    tensor_id: TensorId(self.first_tensor + tensor as u64),
                    argument: None,
                });
            }
            *position += 1;
        }
    }

    /// The address of each argument: by the launch's parameters, or for a library call by the blocks' addresses.
    fn addresses(
        &mut self,
        launch: &BufferLaunch<'_, '_, '_>,
        slices: &[BufferSlice<'_>],
    ) -> Option<Vec<u64>> {
        let (device, program) = (launch.launch.device_id, launch.program);
        let Some(parameters) = launch.parameters else {
            let base = |slice: &BufferSlice<'_>| {
                let base = self.bases.get(&(device, program, slice.allocation))?;
                Some(base.wrapping_add(slice.offset))
            };
            return slices.iter().map(base).collect();
        };
        let pointers = pointers(parameters, slices.len());
        self.unknown += u64::from(pointers.is_none());
        for (pointer, slice) in pointers.iter().flatten().zip(slices) {
            let base = pointer.wrapping_sub(slice.offset);
            self.bases.insert((device, program, slice.allocation), base);
        }
        pointers
    }

    /// Forgets the addresses of blocks where a program starts again: the next execution may have others.
    fn begin_execution(&mut self, launch: &BufferLaunch<'_, '_, '_>) {
        let last = self.steps.insert((launch.launch.device_id, launch.program), launch.step);
        let is_library = launch.parameters.is_none();
        if last.is_some_and(|last| launch.plan.starts_again(last, launch.step, is_library)) {
            let own = (launch.launch.device_id, launch.program);
            self.bases.retain(|(device, program, _), _| (*device, *program) != own);
        }
    }

    /// The storage that a slice lies in: the one that is live there and has the value, or a new one.
    fn storage(
        &mut self,
        launch: &BufferLaunch<'_, '_, '_>,
        index: usize,
        slice: &BufferSlice<'_>,
        address: u64,
    ) -> usize {
        let instruction = launch.plan.steps.get(launch.step).map_or("", |(_, instruction)| instruction.name);
        let range = (launch.launch.device_id, address, slice.size);
        let temporary = |name: &str| (Some(name.to_owned()), BufferRole::Temporary);
        if slice.is_written {
            let written = launch.blocks.written(slice, instruction);
            if let Some((name, _)) = &written
                && let Some(storage) = self.live_at(range, true)
                && self.names.get(storage) == Some(name)
            {
                return self.touch(storage, launch, instruction);
            }
            let (name, role) = written.unwrap_or_else(|| temporary(instruction));
            return self.begin(launch, range, name, role, instruction);
        }
        let (maker, named) = match launch.plan.maker(launch.step, index) {
            ValueMaker::Argument(parameter) => {
                let name = launch.blocks.argument(parameter);
                if let Some(storage) = self.live_at(range, true)
                    && self.is_argument(storage, name)
                {
                    return self.touch(storage, launch, "");
                }
                ("", (name.map(str::to_owned), BufferRole::Argument))
            }
            ValueMaker::Instruction(maker) => {
                let holds =
                    |storage: &usize| self.writers.get(*storage).is_some_and(|writer| writer == maker);
                if let Some(storage) = self.live_at(range, false).filter(holds) {
                    return self.touch(storage, launch, maker);
                }
                (maker, temporary(maker))
            }
            ValueMaker::Unknown(name) => {
                if let Some(storage) = self.live_at(range, false) {
                    let writer = self.writers.get(storage).cloned().unwrap_or_default();
                    return self.touch(storage, launch, &writer);
                }
                let named =
                    launch.blocks.whole(slice).unwrap_or((name.map(str::to_owned), BufferRole::Temporary));
                (name.unwrap_or(""), named)
            }
        };
        self.begin(launch, range, named.0, named.1, maker)
    }

    /// True if a storage is an argument of a name. What a program returned is an argument of the next one: it has the
    /// argument's name from then on.
    fn is_argument(&mut self, storage: usize, name: Option<&str>) -> bool {
        let (Some(role), Some(known)) = (self.roles.get_mut(storage), self.names.get_mut(storage)) else {
            return false;
        };
        if *role == BufferRole::Result {
            (*role, *known) = (BufferRole::Argument, name.map(str::to_owned));
        }
        *role == BufferRole::Argument && known.as_deref() == name
    }

    fn touch(&mut self, storage: usize, launch: &BufferLaunch<'_, '_, '_>, writer: &str) -> usize {
        if let Some(used) = self.used.get_mut(storage) {
            *used = launch.launch.ordinal.max(*used);
        }
        if let Some(known) = self.writers.get_mut(storage) {
            writer.clone_into(known);
        }
        storage
    }

    /// The live storage that holds a range, or is it.
    fn live_at(&self, (device, first, size): (i32, u64, u64), is_whole: bool) -> Option<usize> {
        let (_, &storage) = self.live.range((device, 0)..=(device, first)).next_back()?;
        let row = self.storages.get(storage)?;
        let is_it = row.address.0 == first && row.size_bytes == size;
        let holds = row.address.0.saturating_add(row.size_bytes) >= first.saturating_add(size);
        (is_it || (holds && !is_whole)).then_some(storage)
    }

    fn begin(
        &mut self,
        launch: &BufferLaunch<'_, '_, '_>,
        (device_id, first, size): (i32, u64, u64),
        name: Option<String>,
        role: BufferRole,
        writer: &str,
    ) -> usize {
        let ordinal = launch.launch.ordinal;
        let end = first.saturating_add(size.max(1));
        let before = self.live.range((device_id, 0)..(device_id, first)).next_back().map(|(key, _)| *key);
        let within = self.live.range((device_id, first)..(device_id, end)).map(|(key, _)| *key);
        for key in within.chain(before).collect::<Vec<_>>() {
            let Some(row) = self.live.get(&key).and_then(|storage| self.storages.get_mut(*storage)) else {
                continue;
            };
            if row.address.0.saturating_add(row.size_bytes) > first {
                row.free_ordinal = Some(ordinal.max(row.alloc_ordinal));
                row.free_ns = Some(launch.time_ns.max(row.alloc_ns));
                self.live.remove(&key);
            }
        }
        let storage = self.storages.len();
        // Arguments were there before the program: their first use is all that is known.
        self.storages.push(Storage {
            storage_id: StorageId(self.first_storage + storage as u64),
            run_id: RunId(0),
            device_id,
            address: Address(first),
            size_bytes: size,
            alloc_ns: launch.time_ns,
            free_ns: None,
            alloc_ordinal: ordinal,
            free_ordinal: None,
            origin: StorageOrigin::Tensor,
            op_id: (role != BufferRole::Argument).then_some(launch.op_id),
        });
        self.roles.push(role);
        self.names.push(name);
        self.used.push(ordinal);
        self.writers.push(writer.to_owned());
        self.live.insert((device_id, first), storage);
        storage
    }

    /// The view of a storage that a slice is.
    fn tensor(
        &mut self,
        launch: &BufferLaunch<'_, '_, '_>,
        storage: usize,
        slice: &BufferSlice<'_>,
        address: u64,
    ) -> Option<usize> {
        let shape = ArrayShape::read(slice.shape)?;
        let key = (storage, address, slice.shape.to_vec());
        if let Some(tensor) = self.views.get(&key) {
            return Some(*tensor);
        }
        let tensor = self.tensors.len();
        self.tensors.push(Tensor {
            tensor_id: TensorId(self.first_tensor + tensor as u64),
            storage_id: StorageId(self.first_storage + storage as u64),
            op_id: slice.is_written.then_some(launch.op_id),
            address: Address(address),
            dtype: shape.dtype.to_owned(),
            element_bytes: shape.element_bytes,
            span_bytes: shape.bytes(),
            is_contiguous: shape.is_contiguous(),
            sizes: shape.sizes,
            strides: shape.strides,
            ..Tensor::default()
        });
        self.views.insert(key, tensor);
        Some(tensor)
    }

    /// Ends the temporaries behind their last use, and names every view after its storage.
    pub fn finish(&mut self) {
        for (storage, row) in self.storages.iter_mut().enumerate() {
            let is_temporary = self.roles.get(storage).is_some_and(|role| *role == BufferRole::Temporary);
            if is_temporary && row.free_ordinal.is_none() {
                row.free_ordinal = self.used.get(storage).map(|used| used + 1);
                row.free_ns = Some(row.alloc_ns);
            }
        }
        for ((storage, _, _), tensor) in &self.views {
            if let Some(tensor) = self.tensors.get_mut(*tensor) {
                tensor.name = self.names.get(*storage).cloned().flatten();
                tensor.role = self.roles.get(*storage).map(|role| role.word().to_owned());
            }
        }
    }
}

/// The addresses among a launch's parameters, where they are as many as its thunk has arguments: pointers, and the tensor
/// maps that XLA passes by value to kernels that copy by them.
fn pointers(parameters: &LaunchParameter, count: usize) -> Option<Vec<u64>> {
    let bytes = &parameters.bytes.0;
    let pointer = |offset: usize| {
        let word = bytes.get(offset..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*word))
    };
    if parameters.offsets.is_empty() {
        return (bytes.len() == count * 8).then(|| (0..count).filter_map(|at| pointer(at * 8)).collect());
    }
    // Kernels that Triton compiled take pointers of scratch memory behind those of the arguments.
    let wide = parameters.offsets.iter().zip(&parameters.sizes).take(count);
    let address = |(offset, size): (&u32, &u32)| match *size {
        POINTER_BYTES => pointer(*offset as usize),
        TENSOR_MAP_BYTES => {
            let map = bytes.get(*offset as usize..)?.first_chunk::<{ TENSOR_MAP_BYTES as usize }>()?;
            let found = tensor_map::find(map, |_| true);
            found.first().filter(|map| map.parameter_offset == 0).map(|map| map.address)
        }
        _ => None,
    };
    let pointers: Option<Vec<u64>> = wide.map(address).collect();
    pointers.filter(|pointers| pointers.len() == count)
}

/// Parameters of launches, by launch.
pub fn by_launch(parameters: &[LaunchParameter]) -> BTreeMap<KernelId, &LaunchParameter> {
    parameters.iter().map(|row| (row.kernel_id, row)).collect()
}

#[cfg(test)]
mod tests {
    use stallmap_schema::cell::Blob;

    use super::*;

    /// Parameters of a kernel that XLA's Triton made for a fused product, as recorded on an H200: two tensor maps, and
    /// a pointer between them.
    #[test]
    fn a_tensor_map_is_an_argument_as_a_pointer_is() {
        let words: [u32; 16] =
            [0x1b6e_4400, 3, 0x0004_60a0, 0x20, 0x80, 0, 0, 0, 0xff, 3, 7, 0, 0, 0x3f00_0000, 0x700, 0];
        let mut map: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        map.resize(TENSOR_MAP_BYTES as usize, 0);
        let bytes = [map.clone(), 0x7f00_u64.to_le_bytes().to_vec(), map].concat();
        let parameters = LaunchParameter {
            kernel_id: KernelId(0),
            bytes: Blob(bytes),
            offsets: vec![0, 128, 136],
            sizes: vec![128, 8, 128],
        };
        let map = 0x3_1b6e_4400;
        assert_eq!(pointers(&parameters, 3), Some(vec![map, 0x7f00, map]));
        assert_eq!(pointers(&parameters, 4), None, "fewer parameters than arguments");
        let scalar = LaunchParameter { sizes: vec![128, 4, 128], ..parameters };
        assert_eq!(pointers(&scalar, 3), None, "a number is no argument");
    }
}
