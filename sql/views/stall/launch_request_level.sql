-- Levels of memory that serve the sectors of one instruction in one launch with recorded accesses.
--
-- From recorded addresses, by LRU caches of the GPU's sizes: L1 sees the blocks of its multiprocessor, L2 all blocks of
-- the launch. The first touch of a sector in a launch finds it in L2 with the part that launches before left there of its
-- object. Sets, other traffic and another order of blocks change this. `instruction_reuse` has the distances,
-- `object_residency` what launches find in L2.
CREATE VIEW launch_request_level (
  kernel_id,
  -- The function.
  function_id,
  pc,
  -- Its warp requests.
  requests,
  -- Lines of 128 bytes that they touch.
  lines,
  -- Sectors of 32 bytes that they touch.
  sectors,
  -- Sectors that L1 holds. 0 if the instruction bypasses L1.
  l1_sectors,
  -- Sectors that L1 or L2 hold.
  l2_sectors,
  -- Sectors that it is the first of the launch to touch.
  cold_sectors,
  -- Sectors among these that launches before left in L2.
  held_sectors,
  -- True if these are estimated from a sample of lines.
  is_sampled,
  -- Warps of the launch on one multiprocessor, whose requests share a way to memory.
  resident_warps
) AS
WITH gpu AS (
  SELECT kernel_id, l1_bytes / 32.0 AS l1_sectors, l2_bytes / 32.0 AS l2_sectors, resident_warps FROM launch_cache
), part AS (
  -- Allocations are objects where no storage is known.
  SELECT
    kernel_id, function_id, pc, storage_id IS NOT NULL AS is_storage,
    coalesce(storage_id, allocation_id) AS object_id, sum(unique_bytes) / 32.0 AS sectors
  FROM pc_tensor
  GROUP BY kernel_id, function_id, pc, storage_id IS NOT NULL, coalesce(storage_id, allocation_id)
), first_touch AS (
  SELECT
    p.kernel_id, p.function_id, p.pc, sum(coalesce(r.l2_share, 0.0) * p.sectors) / nullif(sum(p.sectors), 0) AS l2_share
  FROM part p
  LEFT JOIN object_residency r ON r.kernel_id = p.kernel_id AND r.is_storage = p.is_storage AND r.object_id = p.object_id
  GROUP BY p.kernel_id, p.function_id, p.pc
), counted AS (
  SELECT
    r.function_id, r.pc, r.kernel_id, max(r.requests) AS requests, max(r.lines) AS lines,
    min(r.line_rate) < 1.0 AS is_sampled, max(g.resident_warps) AS warps,
    sum(CASE WHEN r.stream = 'launch' THEN r.touches END) AS sectors,
    sum(CASE WHEN r.stream = 'launch' AND r.reuse = 'cold' THEN r.touches ELSE 0 END) AS cold,
    sum(CASE WHEN r.stream = 'multiprocessor' AND r.reuse = 'reused' THEN r.touches * greatest(least(
      (g.l1_sectors - r.distance_from) / (r.distance_to - r.distance_from), 1.0), 0.0) ELSE 0.0 END) AS in_l1,
    sum(CASE WHEN r.stream = 'launch' AND r.reuse = 'reused' THEN r.touches * greatest(least(
      (g.l2_sectors - r.distance_from) / (r.distance_to - r.distance_from), 1.0), 0.0) ELSE 0.0 END) AS in_l2
  FROM gpu g
  JOIN instruction_reuse r ON r.kernel_id = g.kernel_id
  WHERE g.l1_sectors IS NOT NULL AND g.l2_sectors > 0
  GROUP BY r.function_id, r.pc, r.kernel_id
)
SELECT
  c.kernel_id, c.function_id, c.pc, c.requests, c.lines, CAST(c.sectors AS DOUBLE),
  CASE WHEN i.is_past_l1 THEN 0.0 ELSE c.in_l1 END,
  least(greatest(c.in_l1, c.in_l2 + c.cold * coalesce(f.l2_share, 0.0)), c.sectors),
  CAST(c.cold AS DOUBLE), c.cold * coalesce(f.l2_share, 0.0), c.is_sampled,
  c.warps
FROM counted c
LEFT JOIN first_touch f ON f.kernel_id = c.kernel_id AND f.function_id = c.function_id AND f.pc = c.pc
LEFT JOIN instruction i ON i.function_id = c.function_id AND i.pc = c.pc
