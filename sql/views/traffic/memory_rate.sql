-- One GPU of one run: the rates of its device memory, of its L2, of its L1 and of atomics at a slice of L2.
--
-- A bus transfers two words per cycle of the memory's clock. Some nine tenths of that rate are reached in practice. Where
-- the width of the bus was not recorded, it is that of the largest GPU of the compute capability. While all multiprocessors
-- load from L2, each gets a line of 128 bytes in 3.8 cycles (measured on an H100, for 8 and 16 MiB). A slice of L2 applies the
-- lanes of a request to one sector in 1.4 cycles (measured on an H100, for objects of 128 bytes to 16 KiB). An L1 serves
-- one line of 128 bytes per cycle (measured on an H200: kernels that L1 limits reach 0.95).
CREATE VIEW memory_rate (
  run_id,
  -- The device, as in `device`.
  device_id,
  -- Bytes of device memory per nanosecond, read and written.
  device_bytes_per_ns,
  -- Bytes of L2 per nanosecond, of all multiprocessors at their largest clock.
  l2_bytes_per_ns,
  -- Cycles per nanosecond, of all multiprocessors at the largest clock.
  request_cycles_per_ns,
  -- Sectors per nanosecond to which one slice of L2 applies atomics, at the largest clock.
  atomic_sectors_per_ns,
  -- Lines of one L1 per nanosecond, at the largest clock. Each multiprocessor has an L1.
  l1_lines_per_ns,
  -- Multiprocessors.
  multiprocessor_count
) AS
SELECT
  run_id, device_id,
  0.9 * 2.0 * memory_clock_khz / 1e6 / 8.0 * coalesce(memory_bus_bits, CASE
    WHEN compute_major = 7 AND compute_minor = 5 THEN 384
    WHEN compute_major = 7 THEN 4096
    WHEN compute_major = 8 AND compute_minor = 0 THEN 5120
    WHEN compute_major = 9 AND memory_bytes > 100000000000 THEN 6144
    WHEN compute_major = 9 THEN 5120
    WHEN compute_major = 10 THEN 8192
    WHEN compute_major = 12 THEN 512
    ELSE 384
  END),
  128.0 / 3.8 * multiprocessor_count * sm_clock_khz / 1e6,
  multiprocessor_count * sm_clock_khz / 1e6 AS request_cycles_per_ns,
  sm_clock_khz / 1e6 / 1.4 AS atomic_sectors_per_ns,
  sm_clock_khz / 1e6 AS l1_lines_per_ns,
  multiprocessor_count
FROM device
