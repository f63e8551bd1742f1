//! Throughput and memory of finalizing accesses:
//! `cargo run --release -p stallmap-finish --example throughput -- FOLDER LAUNCHES REQUESTS_EACH`.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use stallmap_finish::finish;
use stallmap_schema::capture::recording::CodeRange;
use stallmap_schema::capture::request::{OFFSETS_32, READ, REGULAR, Request};
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::id::{Address, FunctionId, KernelId, ModuleId, RunId};
use stallmap_schema::table::Row;
use stallmap_schema::tables::launch::Launch;

const CODE: u64 = 0x1000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, launches, requests] = &arguments[..] else {
        return Err("usage: throughput FOLDER LAUNCHES REQUESTS_EACH".into());
    };
    let (launches, requests) = (launches.parse()?, requests.parse()?);
    let partial = Path::new(folder).join("throughput.stallmap.partial");
    fs::create_dir_all(partial.join("run-accesses-1"))?;
    let began = Instant::now();
    let bytes = record(&partial, launches, requests)?;
    println!("segment: {bytes} bytes in {:.1} s", began.elapsed().as_secs_f64());

    let began = Instant::now();
    let summary = finish(&partial, &Path::new(folder).join("throughput.stallmap"), &|_| ())?;
    let seconds = began.elapsed().as_secs_f64();
    let lanes = summary.runs.iter().map(|run| run.lane_access_count).sum::<u64>();
    println!("capture: {} bytes of {lanes} lane accesses in {seconds:.1} s", summary.bytes);
    println!("{:.1} million requests a second", launches as f64 * requests as f64 / seconds / 1e6);
    let status = fs::read_to_string("/proc/self/status")?;
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    Ok(())
}

/// Writes a run of launches whose every third request is irregular.
fn record(partial: &Path, launches: u64, requests: u64) -> Result<u64, Box<dyn Error>> {
    let mut segment = SegmentWriter::create(&partial.join("run-accesses-1/rows.seg"))?;
    let code = CodeRange {
        function_id: FunctionId(1),
        module_id: ModuleId(1),
        name: "kernel".into(),
        is_kernel: true,
        address: Address(CODE),
        code_bytes: 4096,
        ordinal: 0,
    };
    segment.append_batch(CodeRange::TABLE.name, &CodeRange::batch([code])?)?;
    for ordinal in 0..launches {
        segment.append_batch(Launch::TABLE.name, &Launch::batch([launch(ordinal)])?)?;
        let mut records = Vec::new();
        let mut random = ordinal;
        for index in 0..requests {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Warps run in no order.
            let warp = (index / 3) ^ (random >> 60);
            records.extend(request(warp, index % 3).write());
            if index % 3 == 1 {
                let distance = |lane| (random.rotate_left(lane) % (1 << 24)).to_le_bytes();
                records.extend((0..32_u32).flat_map(|lane| distance(lane).into_iter().take(4)));
            }
        }
        segment.append_requests(ordinal, &records)?;
    }
    Ok(segment.bytes())
}

fn request(warp: u64, instruction: u64) -> Request {
    let regular = instruction != 1;
    Request {
        address: (1 << 40) + instruction * (1 << 30) + warp * 128,
        pc: CODE + instruction * 16,
        access_bytes: 4,
        flags: READ,
        lane_mask: u32::MAX,
        stride: if regular { 4 } else { 0 },
        block: warp / 8,
        warp: u8::try_from(warp % 8).unwrap_or(0),
        space: 0,
        encoding: if regular { REGULAR } else { OFFSETS_32 },
    }
}

fn launch(ordinal: u64) -> Launch {
    Launch {
        kernel_id: KernelId(ordinal),
        run_id: RunId(0),
        function_id: FunctionId(1),
        ordinal,
        occurrence: 0,
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        block_x: 256,
        block_y: 1,
        block_z: 1,
        cluster_x: None,
        cluster_y: None,
        cluster_z: None,
        dynamic_shared_bytes: None,
        static_shared_bytes: None,
        local_bytes: None,
        register_count: None,
        device_id: 0,
        op_id: None,
        pystates_hash: None,
        graph_id: None,
        graph_launch: None,
        graph_node: None,
        capture_ordinal: None,
        accesses_of: None,
    }
}
