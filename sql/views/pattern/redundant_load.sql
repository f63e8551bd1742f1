-- Loads of one instruction of one launch that repeat a load of the same scope, with no store in between.
--
-- Redundant loads of a thread could stay in a register, those of a warp or a block in shared memory, those of the grid
-- in L2. Only addresses are compared, not values. Requests are in the order in which the GPU queued them under the
-- instrument, which matches the program's order only within a warp. `load_redundancy` has the exact definition. Where the capture
-- holds the requests of a sample of blocks (`launch_access`), shares are theirs, and those of the grid are null.
CREATE VIEW redundant_load (
  kernel_id,
  function_id,
  pc,
  -- Scope of the earlier load: thread, warp, block, grid. Each includes the narrower ones.
  scope,
  -- Loads of device memory, by lanes.
  loads,
  -- Redundant loads. Null if the sample has none of the instruction's loads, and for the grid where blocks are missing.
  redundant_loads,
  -- Their bytes.
  redundant_bytes,
  -- Their part of the loads.
  redundant_share,
  -- Sampled part of all sectors: 1 if the counts are exact.
  sector_rate
) AS
WITH scoped AS (
  SELECT
    r.kernel_id, r.function_id, r.pc, s.scope, r.loads, r.load_bytes,
    CASE s.scope
      WHEN 'thread' THEN r.thread_loads WHEN 'warp' THEN r.warp_loads WHEN 'block' THEN r.block_loads
      ELSE CASE WHEN NOT a.is_sampled THEN r.grid_loads END
    END AS redundant,
    r.sector_rate
  FROM load_redundancy r
  JOIN launch_access a ON a.kernel_id = r.kernel_id
  CROSS JOIN (VALUES ('thread'), ('warp'), ('block'), ('grid')) AS s(scope)
)
SELECT
  kernel_id, function_id, pc, scope, CAST(sum(loads) AS BIGINT), CAST(sum(redundant) AS BIGINT),
  CAST(sum(CASE WHEN loads > 0 THEN redundant * load_bytes / loads END) AS BIGINT),
  CAST(sum(redundant) AS DOUBLE) / nullif(sum(loads), 0), min(sector_rate)
FROM scoped
GROUP BY kernel_id, function_id, pc, scope
