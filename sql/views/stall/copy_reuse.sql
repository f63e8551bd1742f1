-- One object that copies of one launch read: how often its blocks bring it from device memory.
--
-- No instrument observes these copies. The code shows which indices of a block select what it copies (`block_axes` of
-- `tensor_map_use`). Blocks begin in order, x first: those at work at once copy a part of the object, and the next ones the
-- same part again or another. It stays in L2 meanwhile if all that blocks at work copy takes a fifth of L2 or less. From two
-- fifths on, nothing stays (measured on an H200 by 18 products). A launch with a copy of unknown indices has one pass.
CREATE VIEW copy_reuse (
  kernel_id,
  -- True for a storage, false for a driver allocation.
  is_storage,
  -- The storage or the allocation.
  object_id,
  -- Dimensions of the grid that select the part of it that a block copies. Null if unknown.
  block_axes,
  -- Part of the object that the blocks at work at once copy.
  wave_share,
  -- Blocks of the launch for each block at work at once.
  waves,
  -- Times that the object is brought from device memory.
  passes
) AS
WITH axes AS (
  SELECT function_id, pc, max(block_axes) AS block_axes
  FROM (
    SELECT function_id, pc, block_axes FROM tensor_map_use
    UNION ALL
    SELECT function_id, pc, block_axes FROM pointer_use
  )
  GROUP BY function_id, pc
), copied AS (
  -- An object whose copies differ has all of their dimensions.
  SELECT
    c.kernel_id, c.is_storage, c.object_id, max(c.object_bytes) AS bytes, count(*) = count(a.block_axes) AS is_known,
    bool_or(strpos(a.block_axes, 'x') > 0) AS by_x, bool_or(strpos(a.block_axes, 'y') > 0) AS by_y,
    bool_or(strpos(a.block_axes, 'z') > 0) AS by_z
  FROM launch_copy c
  JOIN instruction i ON i.function_id = c.function_id AND i.pc = c.pc
  LEFT JOIN axes a ON a.function_id = c.function_id AND a.pc = c.pc
  WHERE c.share > 0.0 AND i.memory_kind = 'copy in'
  GROUP BY c.kernel_id, c.is_storage, c.object_id
), launched AS (
  SELECT
    l.kernel_id, CAST(l.grid_x AS DOUBLE) AS x, CAST(l.grid_y AS DOUBLE) AS y, CAST(l.grid_z AS DOUBLE) AS z,
    max(g.l2_bytes) AS l2_bytes, least(
      CAST(l.grid_x AS DOUBLE) * l.grid_y * l.grid_z,
      -- Up to eight ninths of L1 are shared memory, of which each block takes 1 KiB more.
      max(d.multiprocessor_count) * greatest(1.0, least(
        floor(2048.0 / (l.block_x * l.block_y * l.block_z)),
        floor(65536.0 / (greatest(coalesce(l.register_count, 0), 1) * l.block_x * l.block_y * l.block_z)),
        floor(g.l1_bytes * 8.0 / 9.0 / (1024 + coalesce(l.static_shared_bytes, 0) + coalesce(l.dynamic_shared_bytes, 0))))
      )) AS at_work
  FROM launch l
  JOIN (SELECT DISTINCT kernel_id FROM copied) c ON c.kernel_id = l.kernel_id
  JOIN launch_cache g ON g.kernel_id = l.kernel_id
  JOIN device d ON d.run_id = l.run_id AND d.device_id = l.device_id
  GROUP BY l.kernel_id, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z, l.register_count,
    l.static_shared_bytes, l.dynamic_shared_bytes, g.l1_bytes
), part AS (
  SELECT
    c.kernel_id, c.is_storage, c.object_id, c.bytes, c.is_known,
    CASE WHEN c.is_known THEN
      CASE WHEN c.by_x THEN 'x' ELSE '' END || CASE WHEN c.by_y THEN 'y' ELSE '' END || CASE WHEN c.by_z THEN 'z' ELSE '' END
    END AS block_axes,
    CASE WHEN c.by_x THEN least(1.0, l.at_work / l.x) ELSE 1.0 END
      * CASE WHEN c.by_y THEN least(1.0, greatest(1.0, l.at_work / l.x) / l.y) ELSE 1.0 END
      * CASE WHEN c.by_z THEN least(1.0, greatest(1.0, l.at_work / (l.x * l.y)) / l.z) ELSE 1.0 END AS wave_share,
    l.x * l.y * l.z / l.at_work AS waves, l.l2_bytes
  FROM copied c
  JOIN launched l ON l.kernel_id = c.kernel_id
), together AS (
  SELECT
    *,
    bool_and(is_known) OVER w AS all_known,
    sum(bytes * wave_share) OVER w AS wave_bytes
  FROM part
  WINDOW w AS (PARTITION BY kernel_id)
)
SELECT
  kernel_id, is_storage, object_id, block_axes, wave_share, waves,
  CASE WHEN all_known
    THEN 1.0 + (greatest(wave_share * waves, 1.0) - 1.0) * least(greatest(5.0 * wave_bytes / l2_bytes - 1.0, 0.0), 1.0)
    ELSE 1.0 END
FROM together
