-- One launch with what was measured of it, and its place among the launches of its kind.
--
-- Launches of one kind have the kernel, the grid, the block and the dynamic shared memory in common: only they do
-- comparable work. Bytes and sectors are those that the recorder saw: of observed instructions, in global and local
-- memory.
CREATE VIEW launch_measure (
  -- The launch.
  kernel_id,
  -- The kernel.
  function_id,
  -- Its name as the programmer wrote it.
  kernel,
  -- Blocks of the grid in x, y and z, then threads of a block, as 16x1x1 256x1x1.
  shape,
  -- Dynamic shared memory of a block, bytes.
  dynamic_shared_bytes,
  -- Position among the launches of its kind, from 0.
  occurrence,
  -- How many of its kind there are.
  kind_launch_count,
  -- Optimizer steps finished before; null outside ops.
  step,
  -- Whether its cost was measured; where not, samples and times are null.
  is_sampled,
  -- Samples, as in the view `sample`.
  samples,
  -- Those of memory stalls.
  memory_samples,
  -- What one sample that was counted makes of them: 1 where the program was sampled; see `cost_run`.
  sample_weight,
  -- Estimated time of the GPU, nanoseconds; see `cost_time`.
  estimated_ns,
  -- Its time from start to end while it was replayed, nanoseconds; see `launch_duration`.
  duration_ns,
  -- Warp requests; null where its accesses were not recorded.
  request_count,
  -- Bytes that they touch, in each request once.
  accessed_bytes,
  -- Sectors of 32 bytes that they touch, in each request once.
  sectors,
  -- Those of them beyond the fewest that could hold the bytes.
  excess_sectors
) AS
WITH cost AS (
  SELECT
    k.kernel_id,
    max(k.scale) AS scale,
    coalesce(sum(s.samples), 0.0) AS samples,
    coalesce(sum(s.memory_samples), 0.0) AS memory_samples,
    sum(CASE WHEN s.kernel_id IS NULL THEN 0.0 ELSE s.estimated_ns END) AS estimated_ns
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
  c.samples, c.memory_samples, c.scale, c.estimated_ns, d.duration_ns,
  a.request_count, a.bytes, a.sectors, a.excess
FROM launch l
LEFT JOIN function f ON f.function_id = l.function_id
LEFT JOIN op o ON o.op_id = l.op_id
LEFT JOIN cost c ON c.kernel_id = l.kernel_id
LEFT JOIN access a ON a.kernel_id = l.kernel_id
LEFT JOIN launch_duration d ON d.kernel_id = l.kernel_id
WINDOW same_kind AS (
  PARTITION BY l.function_id, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z, l.dynamic_shared_bytes
  ORDER BY l.ordinal
)
