-- Position of one launch, or of one kernel over its launches, under the roofline: its bound and its efficiency.
--
-- A launch is never faster than its floating-point operations at the peak of their types, nor than its DRAM bytes at
-- DRAM's peak. The longer of the two times is the roof (Williams, Waterman, Patterson: Roofline, 2009; each of several
-- types has its own peak). Peaks are CUPTI's, at the clocks of the measurement: the capacity of all units of a kind per
-- cycle, times their clock. Tensor cores count with the dense peak (see `launch_flops`). Values are not clamped: more
-- than 1 means a wrong counter or sparse products.
CREATE VIEW roofline (
  -- Level of the row: launch, kernel (its launches with one flops_source).
  grain,
  -- The launch. Null if the row covers a kernel.
  kernel_id,
  -- The kernel.
  function_id,
  kernel,
  launch_count,
  -- Their time while they were measured, nanoseconds.
  duration_ns,
  -- Floating-point operations of tensor cores and threads, if measured.
  flops,
  -- Origin of the operations: tensor and thread, tensor (threads were not measured, so there may be more), thread. Null
  -- if neither was measured, or if only tensor cores were measured and did nothing.
  flops_source,
  -- Bytes of DRAM, read and written.
  dram_bytes,
  -- Operational intensity: operations per byte.
  intensity,
  -- Ridge point: intensity above which operations are the roof.
  ridge,
  -- Operations per second.
  flops_per_second,
  -- DRAM bytes per second.
  dram_bytes_per_second,
  -- Peak operations per second of their types.
  peak_flops_per_second,
  -- Peak DRAM bytes per second.
  peak_dram_bytes_per_second,
  -- The roof: compute or memory. Null if operations are unknown.
  bound,
  -- Time at the roof divided by the measured time.
  efficiency
) AS
WITH known AS (
  SELECT
    l.kernel_id, l.function_id, l.kernel,
    w.duration_ns, w.dram_peak_bytes,
    (w.dram_read_bytes + w.dram_write_bytes) / w.dram_peak_bytes * w.duration_ns AS memory_ns,
    w.dram_read_bytes + w.dram_write_bytes AS dram_bytes,
    CASE
      WHEN f.thread_flops IS NOT NULL THEN coalesce(f.tensor_flops, 0.0) + f.thread_flops
      WHEN f.tensor_flops > 0.0 THEN f.tensor_flops
    END AS flops,
    CASE
      WHEN f.thread_flops IS NOT NULL
      THEN CASE WHEN f.tensor_flops IS NULL THEN 0.0 ELSE f.tensor_ns END + f.thread_ns
      WHEN f.tensor_flops > 0.0 THEN f.tensor_ns
    END AS compute_ns,
    CASE
      WHEN f.thread_flops IS NOT NULL AND f.tensor_flops IS NOT NULL THEN 'tensor and thread'
      WHEN f.thread_flops IS NOT NULL THEN 'thread'
      WHEN f.tensor_flops > 0.0 THEN 'tensor'
    END AS source
  FROM launch_work w
  JOIN launch_context l ON l.kernel_id = w.kernel_id
  LEFT JOIN launch_flops f ON f.kernel_id = w.kernel_id
  WHERE w.duration_ns > 0.0 AND w.dram_read_bytes + w.dram_write_bytes IS NOT NULL AND w.dram_peak_bytes > 0.0
), grained AS (
  SELECT 'launch' AS grain, kernel_id AS id, * FROM known
  UNION ALL
  SELECT 'kernel', NULL, * FROM known
), summed AS (
  SELECT
    grain, id, function_id, kernel, source,
    count(*) AS launch_count, sum(duration_ns) AS ns, sum(flops) AS flops, sum(compute_ns) AS compute_ns,
    sum(dram_bytes) AS bytes, sum(memory_ns) AS memory_ns,
    sum(dram_peak_bytes) * 1e9 / sum(duration_ns) AS peak_bytes
  FROM grained
  GROUP BY grain, id, function_id, kernel, source
), roof AS (
  SELECT *, flops * 1e9 / nullif(compute_ns, 0.0) AS peak_flops FROM summed
)
SELECT
  grain, id, function_id, kernel, launch_count, ns, flops, source, bytes,
  flops / nullif(bytes, 0.0),
  peak_flops / peak_bytes,
  flops * 1e9 / ns,
  bytes * 1e9 / ns,
  peak_flops,
  peak_bytes,
  CASE WHEN compute_ns IS NULL THEN NULL WHEN compute_ns > memory_ns THEN 'compute' WHEN bytes > 0.0 OR compute_ns > 0.0 THEN 'memory' END,
  greatest(memory_ns, coalesce(compute_ns, 0.0)) / ns
FROM roof
