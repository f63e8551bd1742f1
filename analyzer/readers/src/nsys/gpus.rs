//! GPUs of a report. Each process counts those that it sees: one ordinal can be several GPUs.

use super::NsysReader;
use super::cell::SqlRow;
use crate::error::ReadResult;
use crate::model::TraceDevice;

/// A GPU as a process counts it.
struct CountedGpu {
    id: i64,
    ordinal: i32,
    /// The process, by place. None without one that has work.
    process: Option<usize>,
    uuid: Option<String>,
}

/// The columns of GPUs.
const COLUMNS: [&str; 10] = [
    "cuDevice",
    "id",
    "name",
    "computeMajor",
    "computeMinor",
    "smCount",
    "totalMemory",
    "l2CacheSize",
    "clockRate",
    "uuid",
];

impl NsysReader {
    pub(super) fn devices(&mut self) -> ReadResult<()> {
        let counted = self.counted()?;
        let trace = &mut self.trace;
        let is_there = self.tables.rows("TARGET_INFO_GPU", &COLUMNS, |row| {
            let Some(id) = row.integer(1).filter(|_| !counted.is_empty()) else {
                let ordinal = row.number(0).or(row.number(1)).unwrap_or(0);
                trace.devices.push(described(row, ordinal));
                return;
            };
            for gpu in counted.iter().filter(|gpu| gpu.id == id) {
                let device = described(row, gpu.ordinal);
                let uuid = gpu.uuid.clone().or(device.uuid);
                trace.devices.push(TraceDevice { process: gpu.process, uuid, ..device });
            }
        })?;
        if !is_there {
            trace.losses.lacks("GPUs");
        }
        let lacks = |is: fn(&TraceDevice) -> bool| trace.devices.iter().any(is);
        let (is_l2, is_clock) =
            (lacks(|device| device.l2_bytes == 0), lacks(|device| device.clocks_khz.0 == 0));
        if is_l2 {
            trace.losses.lacks("L2 size of GPUs, written as 0");
        }
        if is_clock {
            trace.losses.lacks("clocks of multiprocessors, written as 0");
        }
        trace.losses.lacks("clocks of memory, written as 0");
        Ok(())
    }

    /// The GPUs that processes with work count. Without such a process, each GPU once.
    fn counted(&self) -> ReadResult<Vec<CountedGpu>> {
        let mut counted: Vec<CountedGpu> = Vec::new();
        let columns = ["gpuId", "cudaId", "pid", "uuid"];
        self.tables.rows("TARGET_INFO_CUDA_DEVICE", &columns, |row| {
            let process = row.number(2).and_then(|pid| self.processes.get(&pid)).copied();
            let uuid = row.text(3).map(str::to_owned);
            let gpu = row.integer(0).zip(row.number(1));
            counted.extend(gpu.map(|(id, ordinal)| CountedGpu { id, ordinal, process, uuid }));
        })?;
        if counted.iter().any(|gpu| gpu.process.is_some()) {
            counted.retain(|gpu| gpu.process.is_some());
            return Ok(counted);
        }
        let mut known = std::collections::HashSet::new();
        counted.retain(|gpu| known.insert(gpu.id));
        Ok(counted)
    }
}

/// A GPU by its row.
fn described(row: &SqlRow, ordinal: i32) -> TraceDevice {
    let clock_khz = row.integer(8).and_then(|hertz| i32::try_from(hertz / 1000).ok()).unwrap_or(0);
    TraceDevice {
        ordinal,
        process: None,
        uuid: row.text(9).map(str::to_owned),
        name: row.text(2).unwrap_or_default().to_owned(),
        compute: (row.number(3).unwrap_or(0), row.number(4).unwrap_or(0)),
        multiprocessors: row.number(5).unwrap_or(0),
        memory_bytes: row.number(6).unwrap_or(0),
        l2_bytes: row.number(7).unwrap_or(0),
        clocks_khz: (clock_khz, 0),
    }
}

#[cfg(test)]
mod tests {
    use crate::formats::input::ImportInput;
    use crate::nsys::read;

    #[test]
    fn processes_that_see_other_gpus_have_their_own_ordinals() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let kernel = |pid: i64| format!("(1, 2, 0, {})", pid << 24);
        let tables = format!(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES {}, {};
            CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid, uuid);
            INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 40, 'GPU-a'), (1, 0, 41, 'GPU-b'), (1, 1, 99, 'GPU-b');
            CREATE TABLE TARGET_INFO_GPU (id, name, uuid);
            INSERT INTO TARGET_INFO_GPU VALUES (0, 'first', 'GPU-a'), (1, 'second', 'GPU-b')",
            kernel(40),
            kernel(41)
        );
        rusqlite::Connection::open(file.path()).unwrap().execute_batch(&tables).unwrap();
        let trace = read(&ImportInput::from_path(file.path()).unwrap()).unwrap();
        let found: Vec<_> = trace
            .devices
            .iter()
            .map(|device| (device.ordinal, device.process, device.uuid.as_deref(), &*device.name))
            .collect();
        assert_eq!(found, [(0, Some(0), Some("GPU-a"), "first"), (0, Some(1), Some("GPU-b"), "second")]);
    }
}
