-- One launch: its resident blocks per multiprocessor, the limiting resource, and the fill of the GPU by its grid.
--
-- By the rules of the CUDA toolkit's occupancy calculator: registers are allocated to warps in multiples of 256, and a
-- warp's registers lie in one quarter of the register file. Shared memory is allocated to blocks, including the
-- driver's reserve. Null if the capture lacks a number, or if `gpu_limit` does not have the GPU. Clusters, which must
-- lie in one part of the GPU, can lower the occupancy further.
CREATE VIEW launch_occupancy (
  kernel_id,
  -- The kernel.
  function_id,
  device_id,
  -- Blocks of the grid.
  block_count,
  -- Threads of a block.
  block_threads,
  -- Warps of a block.
  block_warps,
  -- Registers of a thread.
  register_count,
  -- Shared memory of a block, static and dynamic, bytes.
  shared_bytes,
  -- Blocks per multiprocessor, limited by warps.
  blocks_by_warps,
  -- Blocks per multiprocessor, limited by registers.
  blocks_by_registers,
  -- Blocks per multiprocessor, limited by shared memory.
  blocks_by_shared,
  -- Blocks per multiprocessor, limited by block slots.
  blocks_by_count,
  -- Resident blocks: the smallest of these limits.
  resident_blocks,
  -- The limiter: warps, registers, shared memory, blocks. If equal, the first. warps if all warps fit.
  limiter,
  -- Theoretical occupancy: warps of those blocks divided by the maximum of a multiprocessor.
  occupancy,
  -- Multiprocessors of the GPU.
  multiprocessor_count,
  -- Resident blocks of all multiprocessors together.
  wave_blocks,
  -- Waves: blocks of the grid divided by those of one wave.
  waves,
  -- Part of the block slots that stay empty, over all waves. The last wave is rarely full.
  tail_share,
  -- Part of the multiprocessors that get no block.
  idle_multiprocessor_share,
  -- Achieved occupancy: active warps divided by the maximum, while the multiprocessor had any. From hardware counters,
  -- see `launch_counters`.
  achieved_occupancy
) AS
WITH need AS (
  SELECT
    l.kernel_id, l.function_id, l.device_id,
    -- Sources without a grid have 0.
    nullif(CAST(l.grid_x AS DOUBLE) * l.grid_y * l.grid_z, 0.0) AS block_count,
    CAST(l.block_x AS BIGINT) * l.block_y * l.block_z AS block_threads,
    (CAST(l.block_x AS BIGINT) * l.block_y * l.block_z + 31) / 32 AS block_warps,
    CAST(l.register_count AS BIGINT) AS register_count,
    CAST(l.static_shared_bytes AS BIGINT) + l.dynamic_shared_bytes AS shared_bytes,
    v.multiprocessor_count, g.warps, g.blocks, g.registers, g.partitions, g.register_unit,
    g.shared_bytes AS all_shared_bytes, g.reserved_shared_bytes, g.shared_unit
  FROM launch l
  LEFT JOIN device v ON v.run_id = l.run_id AND v.device_id = l.device_id
  LEFT JOIN gpu_limit g ON g.compute_major = v.compute_major AND g.compute_minor = v.compute_minor
), unit AS (
  SELECT
    *,
    nullif((register_count * 32 + register_unit - 1) / register_unit * register_unit, 0) AS warp_registers,
    nullif((shared_bytes + reserved_shared_bytes + shared_unit - 1) / shared_unit * shared_unit, 0) AS block_bytes
  FROM need
), fit AS (
  SELECT
    *,
    warps / nullif(block_warps, 0) AS by_warps,
    partitions * (registers / partitions / warp_registers) / nullif(block_warps, 0) AS by_registers,
    CASE WHEN shared_bytes + reserved_shared_bytes = 0 THEN blocks ELSE all_shared_bytes / block_bytes END AS by_shared
  FROM unit
), held AS (
  SELECT *, CASE WHEN by_registers IS NOT NULL AND by_shared IS NOT NULL
    THEN least(by_warps, by_registers, by_shared, blocks) END AS resident
  FROM fit
), filled AS (
  SELECT *, nullif(resident * multiprocessor_count, 0) AS wave_blocks FROM held
), achieved AS (
  SELECT kernel_id, value / 100 AS occupancy
  FROM launch_counter
  WHERE metric = 'sm__warps_active.avg.pct_of_peak_sustained_active'
)
SELECT
  f.kernel_id, f.function_id, f.device_id, f.block_count, f.block_threads, f.block_warps, f.register_count,
  f.shared_bytes, f.by_warps, f.by_registers, f.by_shared, f.blocks, f.resident,
  CASE f.resident WHEN f.by_warps THEN 'warps' WHEN f.by_registers THEN 'registers' WHEN f.by_shared THEN 'shared memory'
    WHEN f.blocks THEN 'blocks' END,
  f.resident * f.block_warps / CAST(f.warps AS DOUBLE),
  f.multiprocessor_count, f.wave_blocks,
  f.block_count / f.wave_blocks,
  1 - f.block_count / (ceil(f.block_count / f.wave_blocks) * f.wave_blocks),
  CASE WHEN f.block_count IS NOT NULL THEN greatest(0.0, 1 - f.block_count / f.multiprocessor_count) END,
  a.occupancy
FROM filled f
LEFT JOIN achieved a ON a.kernel_id = f.kernel_id
