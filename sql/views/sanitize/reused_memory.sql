-- Memory that the framework's allocator gave to new work while a kernel that was given the old tensor had not ended.
--
-- Two kernels on two streams: the first was launched while the old storage was allocated, and ended after the second one, which
-- was given the new storage in the same memory, had begun. Nothing orders the two: the allocator was not asked to wait
-- (`record_stream`), nor the stream. Times may be of another run than storages if the program never calls `record_stream`, and has no
-- collectives, and both storages lie in one allocation of the driver: an allocator that waits for streams divides memory in
-- another way in each run. Copies have no addresses in a timeline, and do not count.
CREATE VIEW reused_memory (
  -- The launch that was given the old storage.
  kernel_id,
  -- Its stream.
  stream_id,
  -- The old storage.
  storage_id,
  object,
  type,
  born_at,
  -- Evidence for its use, as in `object_use`.
  evidence,
  -- The launch that was given the new storage.
  other_kernel_id,
  -- Its stream.
  other_stream_id,
  -- The new storage.
  other_storage_id,
  -- Its label.
  other_object,
  -- Its type and shape, or size.
  other_type,
  -- The line that allocated it.
  other_born_at,
  -- Bytes in both storages.
  byte_count,
  -- Bytes from the start of the old storage to the first of them.
  byte_offset,
  -- Time from the begin of the second kernel to the end of the first, nanoseconds.
  late_ns,
  -- The innermost user line around the first launch.
  line,
  -- The op around it.
  op,
  -- The innermost user line around the second launch.
  other_line,
  -- The op around it.
  other_op
) AS
WITH stream AS (
  SELECT run_id, count(DISTINCT stream_id) AS streams FROM gpu_activity WHERE kind = 'kernel' GROUP BY run_id
), timed AS (
  -- The times of a launch that ran several times in a run are of no single one.
  SELECT a.run_id, a.kernel_id, a.device_id, min(a.stream_id) AS stream_id, min(a.begin_ns) AS begin_ns, min(a.end_ns) AS end_ns
  FROM gpu_activity a
  JOIN stream s ON s.run_id = a.run_id
  WHERE a.kind = 'kernel' AND a.kernel_id IS NOT NULL AND s.streams > 1
  GROUP BY a.run_id, a.kernel_id, a.device_id
  HAVING count(*) = 1 AND min(a.end_ns) IS NOT NULL
), waiting AS (
  -- Runs whose allocator may wait for streams.
  SELECT run_id FROM op WHERE name LIKE 'aten::record_stream%'
  UNION
  SELECT l.run_id FROM launch l JOIN kernel_name n ON n.function_id = l.function_id WHERE n.kernel LIKE '%nccl%'
), used AS (
  SELECT
    t.*, l.run_id AS launch_run_id, s.storage_id, s.address, s.size_bytes, s.alloc_ns, s.free_ns, s.alloc_ordinal, s.free_ordinal,
    l.ordinal, u.evidence
  FROM timed t
  JOIN launch l ON l.kernel_id = t.kernel_id
  JOIN object_use u ON u.kernel_id = t.kernel_id
  JOIN storage s ON s.storage_id = u.storage_id AND s.run_id = l.run_id AND s.device_id = t.device_id
  LEFT JOIN waiting w ON w.run_id = l.run_id
  WHERE l.graph_id IS NULL AND s.origin <> 'tensor' AND (l.run_id = t.run_id OR w.run_id IS NULL)
), freed AS (
  -- The last kernel of each stream, if the storage was freed while it was queued or ran.
  SELECT *
  FROM (SELECT *, row_number() OVER (PARTITION BY storage_id, stream_id ORDER BY end_ns DESC, kernel_id) AS place FROM used)
  WHERE place = 1 AND (free_ns < end_ns OR launch_run_id <> run_id) AND ordinal < free_ordinal
), first AS (
  SELECT *
  FROM (SELECT *, row_number() OVER (PARTITION BY storage_id, stream_id ORDER BY begin_ns, kernel_id) AS place FROM used)
  WHERE place = 1 AND ordinal >= alloc_ordinal
), pair AS (
  SELECT
    o.run_id, o.launch_run_id, o.alloc_ordinal, n.ordinal AS other_ordinal, o.kernel_id, o.stream_id, o.storage_id, o.evidence,
    n.kernel_id AS other_kernel_id, n.stream_id AS other_stream_id,
    n.storage_id AS other_storage_id, greatest(o.address, n.address) AS first_address,
    least(o.address + o.size_bytes, n.address + n.size_bytes) AS past_address, o.address, o.end_ns - n.begin_ns AS late_ns
  FROM freed o
  JOIN first n ON n.run_id = o.run_id AND n.launch_run_id = o.launch_run_id AND n.alloc_ns >= o.free_ns
    AND (n.alloc_ns < o.end_ns OR o.launch_run_id <> o.run_id)
  WHERE n.device_id = o.device_id AND n.storage_id <> o.storage_id AND n.stream_id <> o.stream_id AND n.ordinal > o.ordinal
    -- Times of the GPU are exact to less than a microsecond.
    AND n.begin_ns + 1000 < o.end_ns AND n.address < o.address + o.size_bytes AND o.address < n.address + n.size_bytes
), certain AS (
  SELECT p.*
  FROM pair p
  WHERE p.launch_run_id = p.run_id OR EXISTS (
    SELECT 1
    FROM device_allocation a
    WHERE a.run_id = p.launch_run_id AND a.address <= p.first_address AND p.past_address <= a.address + a.size_bytes
      AND a.alloc_ordinal <= p.alloc_ordinal AND (a.free_ordinal IS NULL OR a.free_ordinal > p.other_ordinal)
  )
), newest AS (
  SELECT storage_id, max(tensor_id) AS tensor_id FROM tensor GROUP BY storage_id
)
SELECT
  p.kernel_id, p.stream_id, p.storage_id, c.label, c.type, c.born_at, p.evidence, p.other_kernel_id, p.other_stream_id,
  p.other_storage_id, d.label, d.type, d.born_at, TRY_CAST(p.past_address - p.first_address AS BIGINT),
  TRY_CAST(p.first_address - p.address AS BIGINT), p.late_ns, line_label(l.line, l.forward_line), l.op,
  line_label(m.line, m.forward_line), m.op
FROM certain p
JOIN launch_context l ON l.kernel_id = p.kernel_id
JOIN launch_context m ON m.kernel_id = p.other_kernel_id
LEFT JOIN newest t ON t.storage_id = p.storage_id
LEFT JOIN newest u ON u.storage_id = p.other_storage_id
LEFT JOIN target_context c ON c.target = CASE WHEN t.tensor_id IS NULL THEN 'storage' ELSE 'tensor' END
  AND c.object_id = coalesce(t.tensor_id, p.storage_id)
LEFT JOIN target_context d ON d.target = CASE WHEN u.tensor_id IS NULL THEN 'storage' ELSE 'tensor' END
  AND d.object_id = coalesce(u.tensor_id, p.other_storage_id)
