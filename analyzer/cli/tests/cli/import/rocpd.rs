//! Databases of rocprofv3: totals of dispatches, with tables of two processes whose stacks are equal: one of version 3 of the
//! schema, and one of version 4, whose rows name tracks.

use super::base::{import, kernel_ns};
use super::{number, python, rows};
use crate::command::CommandFolder;

/// A database. Prints the sum of the kernels' times.
const DATABASE: &str = r#"
import sqlite3
base, total = sqlite3.connect("trace"), 0
for pid in (31, 32):
    end, is_new = f"_0000{pid}", pid == 32
    lane = "track_id" if is_new else "tid"
    gpu = "track_id" if is_new else "agent_id, stream_id"
    stream = "track_id" if is_new else "stream_id"
    base.executescript(f"""
    CREATE TABLE rocpd_metadata{end} (id, tag, value);
    CREATE TABLE rocpd_string{end} (id, guid, string);
    CREATE TABLE rocpd_event{end} (id, guid, category_id, stack_id, parent_stack_id, correlation_id, extdata);
    CREATE TABLE rocpd_info_process{end} (id, guid, nid, ppid, pid);
    CREATE TABLE rocpd_info_agent{end} (id, type, type_index, name, product_name);
    CREATE TABLE rocpd_info_kernel_symbol{end} (id, kernel_name, display_name, arch_vgpr_count);
    CREATE TABLE rocpd_info_pmc{end} (id, name, units);
    CREATE TABLE rocpd_pmc_event{end} (id, event_id, pmc_id, value);
    CREATE TABLE rocpd_sample{end} (id, track_id, timestamp);
    CREATE TABLE rocpd_region{end} (id, start, "end", {lane}, name_id, event_id);
    CREATE TABLE rocpd_track{end} (id, tid, agent_id, stream_id);
    INSERT INTO rocpd_track{end} VALUES (70, 7, NULL, NULL), (52, NULL, 5, 2);
    CREATE TABLE rocpd_kernel_dispatch{end} (id, start, "end", {gpu}, kernel_id, event_id, workgroup_size_x,
      workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z);
    CREATE TABLE rocpd_memory_copy{end} (id, start, "end", dst_agent_id, src_agent_id, {stream}, size, event_id, name_id);
    INSERT INTO rocpd_info_process{end} VALUES ({pid}, 'g', 1, 1, {pid});
    INSERT INTO rocpd_info_agent{end} VALUES (0, 'CPU', 0, 'host', 'EPYC'), (5, 'GPU', 0, 'gfx950', 'MI350X');
    INSERT INTO rocpd_info_kernel_symbol{end} VALUES (3, '_Z4gemmPf.kd', 'gemm(float*)', 48);
    INSERT INTO rocpd_info_pmc{end} VALUES (9, 'SQ_WAVES', '');
    INSERT INTO rocpd_string{end} VALUES (1, 'g', 'KERNEL_DISPATCH'), (2, 'g', 'HIP_RUNTIME_API'), (3, 'g', 'MARKER_CORE_RANGE_API'),
      (4, 'g', 'hipLaunchKernel'), (5, 'g', 'roctxThreadRangeA'), (6, 'g', 'hipDeviceSynchronize');
    INSERT INTO rocpd_sample{end} VALUES (1, 1, 5);
    """)
    if is_new:
        base.executescript(f"CREATE TABLE rocpd_info_category{end} (id, name);"
          f"INSERT INTO rocpd_info_category{end} SELECT id, string FROM rocpd_string{end} WHERE id < 4")
    cpu, gpu = [70] if is_new else [7], [52] if is_new else [5, 2]
    add = lambda table, *row: base.execute(f"INSERT INTO rocpd_{table}{end} VALUES ({','.join('?' * len(row))})", row)
    for number in range(10):
        begin, length = 10_000 * number, 500 + number * pid
        total += length
        add("event", 3 * number + 1, "g", 1, 100 + number, 0, 0, "{}")
        add("event", 3 * number + 2, "g", 2, 100 + number, 0, 0, "{}")
        add("event", 3 * number + 3, "g", 3, 200 + number, 0, 0, '{"message":"layer %d"}' % (number % 2))
        add("region", 3 * number, begin, begin + 200, *cpu, 4, 3 * number + 2)
        add("region", 3 * number + 1, begin - 50, begin + 900, *cpu, 5, 3 * number + 3)
        add("region", 3 * number + 2, begin + 950, begin + 1000, *cpu, 6, None)
        add("kernel_dispatch", number, begin + 300, begin + 300 + length, *gpu, 3, 3 * number + 1, 64, 2, 1, 640, 3, 1)
        add("pmc_event", 2 * number, 3 * number + 1, 9, 20.5)
        add("pmc_event", 2 * number + 1, 3 * number + 1, 9, 21.5)
    add("memory_copy", 1, 1, 7, 5, 0, gpu[-1], 4096, 1, 4)
base.commit()
print(total)
"#;

#[test]
fn kernels_have_calls_markers_and_counters() {
    let place = CommandFolder::new();
    let total: u64 = python(&place, DATABASE).parse().unwrap();
    let content = std::fs::read(place.path("trace")).unwrap();
    let messages = import(&place, content, "x.stallmap");
    assert!(messages.contains("read from rocprofv3: 20 kernels"), "{messages}");
    assert!(messages.contains("samples in time: 2"), "{messages}");
    assert_eq!(kernel_ns(&place, "x.stallmap"), total);
    let one = |sql: &str| number(&place, "x.stallmap", sql);
    assert_eq!(one("SELECT count(*) AS n FROM launch_timeline WHERE queue_ns = 300 AND call_ns = 200"), 20);
    assert_eq!(one("SELECT count(DISTINCT run_id) AS n FROM gpu_activity"), 2);
    let sql = "SELECT o.name, l.grid_x AS x, l.grid_y AS y, l.register_count AS registers, count(*) AS launches, \
         CAST(sum(c.value) AS BIGINT) AS waves FROM launch l JOIN op o ON o.op_id = l.op_id \
         JOIN counter c ON c.kernel_id = l.kernel_id GROUP BY 1, 2, 3, 4 ORDER BY 1";
    let found = rows(&place, "x.stallmap", sql);
    let names: Vec<&str> = found.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["layer 0", "layer 1"]);
    for row in &found {
        let numbers = ["x", "y", "registers", "launches", "waves"].map(|name| row[name].as_u64());
        assert_eq!(numbers, [10, 2, 48, 10, 420].map(Some), "{row}");
    }
    let copies =
        "SELECT count(*) AS n FROM gpu_activity WHERE copy_kind = 'host_to_device' AND size_bytes = 4096";
    assert_eq!(one(copies), 2);
    let lanes = "SELECT count(*) AS n FROM gpu_activity WHERE kind <> 'synchronization' AND (device_id <> 0 OR stream_id IS NULL)";
    assert_eq!(one(lanes), 0);
    assert_eq!(one("SELECT count(*) AS n FROM gpu_activity WHERE synchronization = 'context'"), 20);
}
