-- Loads of one instruction of one launch that load again what the same scope has loaded, with no store to it since.
--
-- What a thread loads again could stay in a register, what a warp or a block loads again in shared memory, what the grid
-- loads again in L2. Only addresses are compared, not values; requests are in the order in which the GPU queued them under
-- the instrument, which is the program's within a warp only. `load_redundancy` has the exact definition.
CREATE VIEW redundant_load (
  -- The launch.
  kernel_id,
  -- The function that holds the instruction.
  function_id,
  -- The instruction.
  pc,
  -- Who had loaded it: thread, warp, block, grid; each holds those before it.
  scope,
  -- Loads of device memory, by lanes.
  loads,
  -- Redundant ones; null where none of the instruction's is in the sample.
  redundant_loads,
  -- Their bytes.
  redundant_bytes,
  -- Their part of the loads.
  redundant_share,
  -- The part of all sectors that is looked at: 1 where the counts are exact.
  sector_rate
) AS
WITH scoped AS (
  SELECT
    r.kernel_id, r.function_id, r.pc, s.scope, r.loads, r.load_bytes,
    CASE s.scope
      WHEN 'thread' THEN r.thread_loads WHEN 'warp' THEN r.warp_loads WHEN 'block' THEN r.block_loads ELSE r.grid_loads
    END AS redundant,
    r.sector_rate
  FROM load_redundancy r
  CROSS JOIN (VALUES ('thread'), ('warp'), ('block'), ('grid')) AS s(scope)
)
SELECT
  kernel_id, function_id, pc, scope, CAST(sum(loads) AS BIGINT), CAST(sum(redundant) AS BIGINT),
  CAST(sum(CASE WHEN loads > 0 THEN redundant * load_bytes / loads END) AS BIGINT),
  CAST(sum(redundant) AS DOUBLE) / nullif(sum(loads), 0), min(sector_rate)
FROM scoped
GROUP BY kernel_id, function_id, pc, scope
