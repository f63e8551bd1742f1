-- Traffic of one instruction of one launch to one target: lines of L1, bytes past L1 and past L2, and the time that memory
-- needs for them.
--
-- Sectors are those of `pc_tensor`, their levels those of `launch_request_level`, of the model launch where a launch has
-- its accesses. Stores and atomics always reach L2. An object that fits into L2 comes from device memory once. So do first
-- touches of any object: where only some blocks were recorded, others touch the same memory first. Copies by
-- tensor maps and pointers, which no instrument observes, read their object as often as `copy_reuse` says. Of what a launch
-- stores, half of a half of L2 stays there until it has ended (measured: 18 outputs of 8 to 96 MiB on an H100).
--
-- L2 takes requests: parts of a line of 128 bytes, by cycles of a multiprocessor while all are at work. A load takes two, a
-- store 2.3 and 1.5 for each sector (2.1 for a part of one), an atomic 0.5 and 2.4 for each sector. With less than half of
-- the multiprocessors at work, each has twice the rate.
--
-- Device memory is accessed by 64 bytes. A sector alone in its line, at a random place or with a neighbor that is not
-- touched, moves these and takes the time of 96. A part of a sector is read before it is stored, unless the launch stores
-- the rest. An atomic reads and writes.
--
-- These follow from 810 kernels on an H100: loads and stores of 1 to 16 bytes a lane, in order, strided and at random, in
-- 16 KiB to 512 MiB.
--
-- Atomics take turns of slices of L2. A request takes one turn for each sector, and again one for each further lane at the
-- same word: two and a half for floats. So do requests that follow each other at one word. 256 to 512 bytes of an object
-- share a slice, and up to 40 slices work at once. Of 248 kernels on an H100 (32 bytes to 32 MiB, lanes at one word, in a
-- sector, in a line, in a line each, at random) 91 % take this time within a factor of two, and 56 % within a quarter.
CREATE VIEW launch_traffic (
  kernel_id,
  -- The function.
  function_id,
  pc,
  -- Target of the lanes, as in `pc_tensor`.
  target,
  storage_id,
  tensor_id,
  allocation_id,
  -- Lines of 128 bytes that L1 looks up.
  l1_lines,
  -- Bytes between L1 and L2.
  l2_bytes,
  -- Bytes between L2 and device memory.
  device_bytes,
  -- Time of the L1s of the multiprocessors that have a block for these lines at their rate, nanoseconds.
  l1_ns,
  -- Time of L2 to answer loads at its rate, nanoseconds.
  l2_ns,
  -- Time of L2 to take requests at its rate, nanoseconds.
  request_ns,
  -- Time of device memory for these bytes at its rate, nanoseconds.
  device_ns,
  -- Time of the slices of L2 that hold the object for its atomics, nanoseconds. 0 for other instructions.
  atomic_ns
) AS
WITH object AS (
  SELECT true AS is_storage, storage_id AS object_id, CAST(max(size_bytes) AS DOUBLE) AS bytes
  FROM storage
  GROUP BY storage_id
  UNION ALL
  SELECT false, allocation_id, CAST(max(size_bytes) AS DOUBLE) FROM device_allocation GROUP BY allocation_id
), access AS (
  SELECT
    kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id,
    bool_or(kind IN ('write', 'atomic')) AS is_written, bool_or(kind = 'atomic') AS is_atomic,
    CAST(sum(sectors) AS DOUBLE) AS sectors, CAST(sum(lane_count) AS DOUBLE) AS lanes,
    CAST(sum(unique_bytes) AS DOUBLE) AS unique_bytes
  FROM pc_tensor
  WHERE space IN ('global', 'global_async')
  GROUP BY kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id
), met AS (
  -- Sectors of an object that a launch touches and writes. Several instructions touch the same ones.
  SELECT
    a.kernel_id, a.storage_id IS NOT NULL AS is_storage, coalesce(a.storage_id, a.allocation_id) AS object_id,
    sum(p.cold_sectors * a.sectors / w.sectors) AS sectors,
    sum(CASE WHEN a.is_written THEN p.cold_sectors * a.sectors / w.sectors END) AS written_sectors,
    sum(CASE WHEN a.is_written THEN a.unique_bytes END) AS written_bytes
  FROM access a
  JOIN (SELECT kernel_id, function_id, pc, sum(sectors) AS sectors FROM access GROUP BY kernel_id, function_id, pc) w
    ON w.kernel_id = a.kernel_id AND w.function_id = a.function_id AND w.pc = a.pc
  JOIN launch l ON l.kernel_id = a.kernel_id
  JOIN launch_request_level p
    ON p.kernel_id = coalesce(l.accesses_of, l.kernel_id) AND p.function_id = a.function_id AND p.pc = a.pc
  WHERE w.sectors > 0.0
  GROUP BY a.kernel_id, a.storage_id IS NOT NULL, coalesce(a.storage_id, a.allocation_id)
  HAVING bool_or(a.is_written)
), request AS (
  SELECT
    a.*, r.lines / r.sectors AS lines_per_sector, 1.0 - r.l1_sectors / r.sectors AS past_l1,
    1.0 - r.l2_sectors / r.sectors AS past_l2, r.cold_sectors / r.sectors AS first_part,
    -- Probability of a lone sector: the request touches no other sector of its line, and no other request touches the adjacent
    -- one meanwhile. For cold misses it is the untouched part of the object, for capacity misses 1.
    least(greatest(r.lines / r.sectors - 0.25, 0.0) / 0.75, 1.0)
      * (1.0 - least(r.cold_sectors / nullif(r.sectors - r.l2_sectors, 0.0), 1.0)
        * least(coalesce(32.0 * r.cold_sectors / nullif(o.bytes, 0.0), 1.0), 1.0)) AS alone,
    -- Fraction of the bytes of the stored sectors that one request does not store, and that the launch does not store.
    greatest(1.0 - a.unique_bytes / (32.0 * a.sectors), 0.0) AS unstored,
    coalesce(greatest(1.0 - m.written_bytes / nullif(32.0 * m.written_sectors, 0.0), 0.0), 0.0) AS unfilled,
    CASE WHEN i.text LIKE '%.F%' THEN 2.5 ELSE 1.0 END AS lane_turns,
    -- Words of a sector that a request touches. Further lanes meet at them.
    a.unique_bytes / coalesce(i.memory_bytes, 4) / a.sectors AS words,
    -- All sectors of an object are taken to be used if no sampled line is of it.
    CASE
      WHEN m.sectors IS NULL OR m.sectors < 1.0 THEN coalesce(o.bytes / 32.0, 1.0)
      ELSE least(m.sectors, coalesce(o.bytes / 32.0, m.sectors))
    END AS atomic_sectors
  FROM access a
  JOIN launch l ON l.kernel_id = a.kernel_id
  JOIN launch_request_level r
    ON r.kernel_id = coalesce(l.accesses_of, l.kernel_id) AND r.function_id = a.function_id AND r.pc = a.pc
  LEFT JOIN met m
    ON m.kernel_id = a.kernel_id AND m.is_storage = (a.storage_id IS NOT NULL)
    AND m.object_id = coalesce(a.storage_id, a.allocation_id)
  LEFT JOIN instruction i ON i.function_id = a.function_id AND i.pc = a.pc
  LEFT JOIN object o
    ON o.is_storage = (a.storage_id IS NOT NULL) AND o.object_id = coalesce(a.storage_id, a.allocation_id)
  WHERE r.sectors > 0.0 AND a.sectors > 0.0
), served AS (
  SELECT
    kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id, is_written,
    sectors * lines_per_sector AS l1_lines,
    32.0 * sectors * CASE WHEN is_written THEN 1.0 ELSE past_l1 END AS l2_bytes,
    sectors * CASE
      WHEN is_atomic THEN 0.5 * lines_per_sector + 2.4
      WHEN is_written THEN 2.3 * lines_per_sector + 1.5 + 0.6 * least(2.0 * unstored, 1.0)
      ELSE 2.0 * lines_per_sector * past_l1
    END AS request_cycles,
    32.0 * sectors * past_l2 * (1.0 + alone) AS device_bytes,
    32.0 * sectors * least(past_l2, first_part) * (1.0 + alone) AS first_bytes,
    (1.0 + 2.0 * alone) / (1.0 + alone) AS delay,
    -- Read before it is stored, as a part of what is stored.
    CASE WHEN is_atomic THEN 1.0 WHEN is_written THEN unstored * unfilled ELSE 0.0 END AS filled,
    CASE WHEN is_atomic THEN coalesce(greatest(
      sectors * (1.0 + lane_turns * greatest(lanes / nullif(sectors * words, 0.0) - 1.0, 0.0))
        / least(greatest(1.0, atomic_sectors / 16.0, least(2.0, atomic_sectors / 8.0)), 40.0),
      lane_turns * lanes / nullif(atomic_sectors * words, 0.0)
    ), 0.0) ELSE 0.0 END AS turns
  FROM request
), copied AS (
  SELECT
    c.kernel_id, c.function_id, c.pc, CAST(c.target AS VARCHAR) AS target, c.storage_id, c.tensor_id, c.allocation_id,
    o.object_bytes * c.share / sum(c.share) OVER (PARTITION BY c.kernel_id, o.is_storage, o.object_id) AS bytes,
    coalesce(r.l2_share, 0.0) AS l2_share, coalesce(u.passes, 1.0) AS passes
  FROM pc_tensor_share c
  JOIN launch_copy o
    ON o.kernel_id = c.kernel_id AND o.function_id = c.function_id AND o.pc = c.pc
    AND o.is_storage = (c.storage_id IS NOT NULL) AND o.object_id = coalesce(c.storage_id, c.allocation_id)
  LEFT JOIN object_residency r ON r.kernel_id = c.kernel_id AND r.is_storage = o.is_storage AND r.object_id = o.object_id
  LEFT JOIN copy_reuse u ON u.kernel_id = c.kernel_id AND u.is_storage = o.is_storage AND u.object_id = o.object_id
  WHERE c.evidence = 'derived'
), moved AS (
  SELECT
    s.kernel_id, s.function_id, s.pc, CAST(s.target AS VARCHAR) AS target, s.storage_id, s.tensor_id, s.allocation_id,
    s.is_written, s.l1_lines, s.l2_bytes, s.request_cycles, s.filled, s.delay, c.l2_bytes AS cache_bytes, s.turns,
    CASE WHEN o.bytes <= c.l2_bytes
        THEN s.device_bytes * least(1.0, o.bytes / nullif(sum(s.device_bytes) OVER object_of_launch, 0.0))
      ELSE s.device_bytes
        - s.first_bytes * (1.0 - least(1.0, coalesce(o.bytes / nullif(sum(s.first_bytes) OVER object_of_launch, 0.0), 1.0)))
    END AS device_bytes
  FROM served s
  LEFT JOIN launch_cache c ON c.kernel_id = s.kernel_id
  LEFT JOIN object o
    ON o.is_storage = (s.storage_id IS NOT NULL) AND o.object_id = coalesce(s.storage_id, s.allocation_id)
  WINDOW object_of_launch AS (PARTITION BY s.kernel_id, s.storage_id, coalesce(s.storage_id, s.allocation_id))
  UNION ALL
  SELECT
    kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id, false, 0.0,
    bytes * passes, 2.0 * bytes * passes / 128.0, 0.0, 1.0, NULL, 0.0, bytes * (passes - l2_share)
  FROM copied
), reached AS (
  SELECT
    kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id, is_written, l1_lines, l2_bytes,
    request_cycles, turns, delay,
    coalesce(device_bytes, 0.0) * CASE
      WHEN is_written THEN 1.0 + filled - 0.5 * coalesce(least(1.0, 0.5 * cache_bytes / nullif(sum(
        CASE WHEN is_written THEN device_bytes ELSE 0.0 END) OVER (PARTITION BY kernel_id), 0.0)), 0.0)
      ELSE 1.0
    END AS device_bytes
  FROM moved
), gpu AS (
  SELECT
    l.kernel_id, v.*, least(v.multiprocessor_count, l.grid_x * l.grid_y * l.grid_z) AS busy_count,
    least(1.0, 2.0 * l.grid_x * l.grid_y * l.grid_z / v.multiprocessor_count) AS l2_part
  FROM launch l
  JOIN memory_rate v ON v.run_id = l.run_id AND v.device_id = l.device_id
)
SELECT
  m.kernel_id, m.function_id, m.pc, m.target, m.storage_id, m.tensor_id, m.allocation_id,
  m.l1_lines, m.l2_bytes, m.device_bytes,
  m.l1_lines / (v.l1_lines_per_ns * v.busy_count),
  CASE WHEN m.is_written THEN 0.0 ELSE m.l2_bytes / (v.l2_bytes_per_ns * v.l2_part) END,
  m.request_cycles / (v.request_cycles_per_ns * v.l2_part), m.device_bytes * m.delay / v.device_bytes_per_ns,
  m.turns / v.atomic_sectors_per_ns
FROM reached m
JOIN gpu v ON v.kernel_id = m.kernel_id
