-- Traffic of one instruction of one launch to one target: lines of L1, bytes past L1 and past L2, and the time that memory
-- needs for them.
--
-- Sectors and their levels are those of `traffic_access`. Stores and atomics always reach L2. An object that fits into L2 comes
-- from device memory once. So do first touches of any object: where only some blocks were recorded, others touch the same
-- memory first. Copies by tensor maps and pointers, which no instrument observes, read their object as often as `copy_reuse`
-- says. L2 writes back, by `object_residency`, parts of what the launch stores, and of what launches before stored and its own
-- lines replace.
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
  -- Bytes among these that launches before stored.
  displaced_bytes,
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
WITH met AS (
  -- Sectors of an object that a launch touches and writes. Several instructions touch the same ones.
  SELECT
    kernel_id, storage_id IS NOT NULL AS is_storage, coalesce(storage_id, allocation_id) AS object_id,
    sum(first_part * sectors) AS sectors, sum(CASE WHEN is_written THEN unique_bytes END) AS written_bytes,
    least(sum(CASE WHEN is_written THEN first_part * sectors END), max(object_bytes) / 32.0) AS written_sectors
  FROM traffic_access
  GROUP BY kernel_id, storage_id IS NOT NULL, coalesce(storage_id, allocation_id)
), request AS (
  SELECT
    a.*, 1.0 - a.l1_part AS past_l1,
    -- Probability of a lone sector: the request touches no other sector of its line, and no other request touches the adjacent
    -- one meanwhile. For cold misses it is the untouched part of the object, for capacity misses 1.
    least(greatest(a.lines_per_sector - 0.25, 0.0) / 0.75, 1.0)
      * (1.0 - coalesce(a.first_part / nullif(a.first_part + a.again_part, 0.0), 1.0)
        * least(coalesce(32.0 * m.sectors / nullif(a.object_bytes, 0.0), 1.0), 1.0)) AS alone,
    -- Fraction of the bytes of the stored sectors that one request does not store, and that the launch does not store.
    greatest(1.0 - a.unique_bytes / (32.0 * a.sectors), 0.0) AS unstored,
    coalesce(greatest(1.0 - m.written_bytes / nullif(32.0 * m.written_sectors, 0.0), 0.0), 0.0) AS unfilled,
    CASE WHEN i.text LIKE '%.F%' THEN 2.5 ELSE 1.0 END AS lane_turns,
    -- Words of a sector that a request touches. Further lanes meet at them.
    a.unique_bytes / coalesce(i.memory_bytes, 4) / a.sectors AS words,
    -- All sectors of an object are taken to be used if no known line is of it.
    CASE WHEN m.sectors IS NULL OR m.sectors < 1.0 THEN coalesce(a.object_bytes / 32.0, 1.0)
      ELSE least(m.sectors, coalesce(a.object_bytes / 32.0, m.sectors)) END AS atomic_sectors
  FROM traffic_access a
  LEFT JOIN met m
    ON m.kernel_id = a.kernel_id AND m.is_storage = (a.storage_id IS NOT NULL)
    AND m.object_id = coalesce(a.storage_id, a.allocation_id)
  LEFT JOIN instruction i ON i.function_id = a.function_id AND i.pc = a.pc
), served AS (
  SELECT
    kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id, is_written, object_bytes,
    sectors * lines_per_sector AS l1_lines,
    32.0 * sectors * CASE WHEN is_written THEN 1.0 ELSE past_l1 END AS l2_bytes,
    sectors * CASE
      WHEN is_atomic THEN 0.5 * lines_per_sector + 2.4
      WHEN is_written THEN 2.3 * lines_per_sector + 1.5 + 0.6 * least(2.0 * unstored, 1.0)
      ELSE 2.0 * lines_per_sector * past_l1
    END AS request_cycles,
    32.0 * sectors * first_part * (1.0 + alone) AS first_bytes, 32.0 * sectors * again_part * (1.0 + alone) AS again_bytes, alone,
    (1.0 + 2.0 * alone) / (1.0 + alone) AS delay,
    -- The part of what is accessed that is read.
    CASE WHEN is_atomic OR NOT is_written THEN 1.0 ELSE unstored * unfilled END AS read_part,
    CASE WHEN is_atomic THEN coalesce(greatest(
      sectors * (1.0 + lane_turns * greatest(lane_count / nullif(sectors * words, 0.0) - 1.0, 0.0))
        / least(greatest(1.0, atomic_sectors / 16.0, least(2.0, atomic_sectors / 8.0)), 40.0),
      lane_turns * lane_count / nullif(atomic_sectors * words, 0.0)), 0.0) ELSE 0.0 END AS turns
  FROM request
), copied AS (
  SELECT
    c.kernel_id, c.function_id, c.pc, CAST(c.target AS VARCHAR) AS target, c.storage_id, c.tensor_id, c.allocation_id,
    o.object_bytes * c.share / sum(c.share) OVER (PARTITION BY c.kernel_id, o.is_storage, o.object_id) AS bytes,
    i.memory_kind NOT IN ('copy in', 'read') AS is_written, coalesce(r.l2_share, 0.0) AS l2_share, r.written_back_bytes, r.displaced_bytes,
    coalesce(u.passes, 1.0) AS passes
  FROM pc_tensor_share c
  JOIN instruction i ON i.function_id = c.function_id AND i.pc = c.pc
  JOIN launch_copy o
    ON o.kernel_id = c.kernel_id AND o.function_id = c.function_id AND o.pc = c.pc
    AND o.is_storage = (c.storage_id IS NOT NULL) AND o.object_id = coalesce(c.storage_id, c.allocation_id)
  LEFT JOIN object_residency r ON r.kernel_id = c.kernel_id AND r.is_storage = o.is_storage AND r.object_id = o.object_id
  LEFT JOIN copy_reuse u ON u.kernel_id = c.kernel_id AND u.is_storage = o.is_storage AND u.object_id = o.object_id
  WHERE c.evidence = 'derived'
), bounded AS (
  SELECT
    s.*, c.l2_bytes >= s.object_bytes AS fits, 1.0 - coalesce(r.l2_share, 0.0) AS missed_part, r.written_back_bytes, r.displaced_bytes,
    least(1.0, coalesce(s.object_bytes / nullif(sum(s.first_bytes + s.again_bytes) OVER object_of_launch, 0.0), 1.0)) AS part,
    least(1.0, coalesce(s.object_bytes / nullif(sum(s.first_bytes) OVER object_of_launch, 0.0), 1.0)) AS first_part
  FROM served s
  LEFT JOIN launch_cache c ON c.kernel_id = s.kernel_id
  LEFT JOIN object_residency r
    ON r.kernel_id = s.kernel_id AND r.is_storage = (s.storage_id IS NOT NULL)
    AND r.object_id = coalesce(s.storage_id, s.allocation_id)
  WINDOW object_of_launch AS (PARTITION BY s.kernel_id, s.storage_id, coalesce(s.storage_id, s.allocation_id))
), moved AS (
  -- Lines that are stored to again after they were written back count with what is read.
  SELECT
    kernel_id, function_id, pc, CAST(target AS VARCHAR) AS target, storage_id, tensor_id, allocation_id, is_written, l1_lines,
    l2_bytes, request_cycles, turns, delay, alone, written_back_bytes, displaced_bytes,
    CASE WHEN fits THEN (first_bytes + again_bytes) * part * missed_part * read_part
      ELSE first_bytes * first_part * missed_part * read_part + again_bytes * (read_part + CAST(is_written AS DOUBLE)) END AS read_bytes
  FROM bounded
  UNION ALL
  SELECT
    kernel_id, function_id, pc, target, storage_id, tensor_id, allocation_id, is_written, 0.0, bytes * passes,
    2.0 * bytes * passes / 128.0, 0.0, 1.0, 0.0, written_back_bytes, displaced_bytes,
    CASE WHEN NOT is_written THEN bytes * (passes - l2_share) WHEN written_back_bytes IS NULL THEN bytes ELSE 0.0 END
  FROM copied
), reached AS (
  -- Stores write back if the object has any, else all of its accesses.
  SELECT
    m.kernel_id, m.function_id, m.pc, m.target, m.storage_id, m.tensor_id, m.allocation_id, m.is_written, m.l1_lines, m.l2_bytes,
    m.request_cycles, m.turns, m.delay, coalesce(m.displaced_bytes * m.l2_bytes / nullif(m.all_l2_bytes, 0.0), 0.0) AS displaced_bytes,
    coalesce(m.read_bytes, 0.0) + (1.0 + m.alone) * coalesce(m.written_back_bytes * CASE
      WHEN m.is_written THEN m.l2_bytes / nullif(m.written_l2_bytes, 0.0)
      WHEN m.written_l2_bytes > 0.0 THEN 0.0 ELSE m.l2_bytes / nullif(m.all_l2_bytes, 0.0) END, 0.0) AS device_bytes
  FROM (
    SELECT *, sum(CASE WHEN is_written THEN l2_bytes ELSE 0.0 END) OVER object_of_launch AS written_l2_bytes,
      sum(l2_bytes) OVER object_of_launch AS all_l2_bytes FROM moved
    WINDOW object_of_launch AS (PARTITION BY kernel_id, storage_id, coalesce(storage_id, allocation_id))
  ) m
), gpu AS (
  SELECT
    l.kernel_id, v.*, least(v.multiprocessor_count, l.grid_x * l.grid_y * l.grid_z) AS busy_count,
    least(1.0, 2.0 * l.grid_x * l.grid_y * l.grid_z / v.multiprocessor_count) AS l2_part
  FROM launch l
  JOIN memory_rate v ON v.run_id = l.run_id AND v.device_id = l.device_id
)
SELECT
  m.kernel_id, m.function_id, m.pc, m.target, m.storage_id, m.tensor_id, m.allocation_id, m.l1_lines, m.l2_bytes,
  m.device_bytes + m.displaced_bytes, m.displaced_bytes, m.l1_lines / (v.l1_lines_per_ns * v.busy_count),
  CASE WHEN m.is_written THEN 0.0 ELSE m.l2_bytes / (v.l2_bytes_per_ns * v.l2_part) END,
  m.request_cycles / (v.request_cycles_per_ns * v.l2_part), (m.device_bytes * m.delay + m.displaced_bytes) / v.device_bytes_per_ns,
  m.turns / v.atomic_sectors_per_ns
FROM reached m
JOIN gpu v ON v.kernel_id = m.kernel_id
