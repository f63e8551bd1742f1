-- One launch with its measures, and its position among the launches of its kind.
--
-- Launches of one kind share the kernel, the grid, the block and the dynamic shared memory. They can still do different
-- work: compare their bytes, too. Bytes and sectors are those of observed instructions, in global and local memory,
-- exact as in `pc_tensor`.
CREATE VIEW launch_measure (
  kernel_id,
  -- The kernel.
  function_id,
  kernel,
  -- Blocks of the grid in x, y and z, then threads of a block, as 16x1x1 256x1x1.
  shape,
  -- Dynamic shared memory of a block, bytes.
  dynamic_shared_bytes,
  -- Position among the launches of its kind, from 0.
  occurrence,
  -- Launches of its kind.
  kind_launch_count,
  -- Optimizer steps completed before. Null outside ops.
  step,
  -- True if its cost was measured. If not, samples and times are null.
  is_sampled,
  samples,
  memory_samples,
  -- Weight of one counted sample: 1 if the program was sampled. See `cost_run`.
  sample_weight,
  -- GPU time, nanoseconds: measured, or estimated. See `launch_time`.
  time_ns,
  -- Its time from start to end, nanoseconds, if it was measured. See `measured_time`.
  duration_ns,
  -- Warp requests. Null if its accesses were not recorded.
  request_count,
  -- Bytes touched, distinct in each request.
  accessed_bytes,
  -- Sectors of 32 bytes touched, distinct in each request.
  sectors,
  -- Sectors among these beyond the fewest that hold the bytes.
  excess_sectors
) AS
WITH cost AS (
  SELECT
    k.kernel_id,
    max(k.scale) AS scale,
    coalesce(sum(s.samples), 0.0) AS samples,
    coalesce(sum(s.memory_samples), 0.0) AS memory_samples
  FROM cost_run k
  LEFT JOIN sample_cost s ON s.run_id = k.run_id AND s.kernel_id = k.kernel_id
  GROUP BY k.kernel_id
), access AS (
  SELECT
    kernel_id, sum(request_count) AS request_count, sum(unique_bytes) AS bytes, sum(sectors) AS sectors,
    greatest(CAST(sum(sectors) AS DOUBLE) - CAST(sum(ideal_sectors) AS DOUBLE), 0.0) AS excess
  FROM pc_tensor_part
  WHERE space <> 'shared'
  GROUP BY kernel_id
)
SELECT
  l.kernel_id, l.function_id, f.demangled_name,
  concat_ws('x', l.grid_x, l.grid_y, l.grid_z) || ' ' || concat_ws('x', l.block_x, l.block_y, l.block_z),
  l.dynamic_shared_bytes,
  row_number() OVER same_kind - 1,
  count(*) OVER (
    PARTITION BY l.function_id, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z, l.dynamic_shared_bytes
  ),
  o.step,
  c.kernel_id IS NOT NULL,
  c.samples, c.memory_samples, c.scale, coalesce(t.time_ns, CASE WHEN c.samples = 0.0 THEN 0.0 END),
  CASE WHEN t.is_measured THEN t.time_ns END,
  a.request_count, a.bytes, a.sectors, a.excess
FROM launch l
LEFT JOIN function f ON f.function_id = l.function_id
LEFT JOIN op o ON o.op_id = l.op_id
LEFT JOIN cost c ON c.kernel_id = l.kernel_id
LEFT JOIN access a ON a.kernel_id = l.kernel_id
LEFT JOIN launch_time t ON t.kernel_id = l.kernel_id
WINDOW same_kind AS (
  PARTITION BY l.function_id, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z, l.dynamic_shared_bytes
  ORDER BY l.ordinal
)
