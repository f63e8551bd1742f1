-- GPUs
-- One row per GPU that the program used.
SELECT DISTINCT
  d.device_id, d.name, d.uuid, d.compute_major, d.compute_minor, d.multiprocessor_count, d.memory_bytes, d.sm_clock_khz,
  d.memory_clock_khz
FROM device d
JOIN run r ON r.run_id = d.run_id
WHERE r.reference_run_id = r.run_id
ORDER BY d.device_id, d.name
