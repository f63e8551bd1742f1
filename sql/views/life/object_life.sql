-- The lifetime of one object, as in `memory_object`: its allocation, uses and free, in ordinals of launches.
--
-- An ordinal names the first launch after an event: events with one ordinal lie between two launches. For the
-- framework, memory of a CUDA graph is free when its capture ends. Later launches of the graph count as uses at the
-- capture.
CREATE VIEW object_life (
  -- The object.
  object_id,
  -- The storage. Null for a driver allocation.
  storage_id,
  -- The driver allocation. Null for a storage.
  allocation_id,
  -- Its name: that of its first named tensor, else of its first tensor, else of its allocation.
  object,
  -- Element type and shape of that tensor. Bytes without a tensor.
  type,
  device_id,
  -- Bytes, rounded by the allocator.
  size_bytes,
  -- The op that allocated it.
  op,
  -- The line of that op. In backward, the line whose gradient it computes.
  born_at,
  -- allocator (its allocation was recorded), tensor (it is older than the recording, or external: its allocation is
  -- unknown), driver.
  origin,
  -- First launch that can use it.
  alloc_ordinal,
  -- First launch that uses it, or that follows its first memcpy or memset. Null without uses.
  first_use_ordinal,
  -- First launch after its last use.
  last_use_ordinal,
  -- First launch after its free. Null if it was never freed.
  free_ordinal,
  -- First launch after the last of the program: the end of objects that are never freed.
  end_ordinal,
  -- Launches that use it.
  use_count,
  -- Memcpys and memsets that read or write it.
  copy_count,
  -- The longest run of launches between two of its uses.
  idle_launches,
  -- The first launch of that run. Null if there is none.
  idle_ordinal,
  -- Evidence for its uses: accesses, op, or both. Null if only memcpys and memsets use it.
  evidence,
  -- Tensors in it.
  tensor_count,
  -- Ordinal at which its device's memory in use first reaches its maximum, as in `memory_peak`.
  peak_ordinal,
  -- True if it is allocated then.
  is_live_at_peak,
  run_id
) AS
WITH timed AS (
  SELECT
    u.object_id, u.kernel_id, u.ordinal, u.evidence, coalesce(u.capture_ordinal, u.ordinal) AS first_ordinal,
    CASE WHEN u.ordinal >= s.free_ordinal THEN coalesce(u.capture_ordinal + 1, u.end_ordinal) ELSE u.end_ordinal END
      AS end_ordinal,
    -- An object that is free is not idle.
    CASE WHEN (u.capture_ordinal IS NULL OR s.free_ordinal IS NULL OR u.ordinal < s.free_ordinal)
      -- The row before, if it is of the same object. A window over each of many objects takes longer.
      AND lag(u.object_id) OVER (ORDER BY u.object_id, u.ordinal, u.end_ordinal, u.called_ns) = u.object_id
      THEN lag(u.end_ordinal) OVER (ORDER BY u.object_id, u.ordinal, u.end_ordinal, u.called_ns)
    END AS idle_ordinal
  FROM object_use u
  JOIN memory_object s ON s.object_id = u.object_id
), used AS (
  SELECT
    object_id,
    min(first_ordinal) AS first_use_ordinal,
    max(end_ordinal) AS last_use_ordinal,
    count(kernel_id) AS use_count,
    sum(CASE WHEN kernel_id IS NULL THEN 1 ELSE 0 END) AS copy_count,
    -- Ordinals are unsigned, and a use may begin before the last one has ended.
    max(CASE WHEN ordinal > idle_ordinal THEN ordinal - idle_ordinal END) AS idle_launches,
    first_value(CASE WHEN ordinal > idle_ordinal THEN idle_ordinal END ORDER BY
      CASE WHEN ordinal > idle_ordinal THEN ordinal - idle_ordinal END DESC NULLS LAST, ordinal) AS idle_ordinal,
    min(CASE WHEN evidence IN ('accesses', 'model launch', 'tensor maps') THEN 'accesses' WHEN evidence = 'op' THEN 'op' END) AS evidence,
    max(CASE WHEN evidence IN ('accesses', 'model launch', 'tensor maps') THEN 'accesses' WHEN evidence = 'op' THEN 'op' END) AS other_evidence
  FROM timed
  GROUP BY object_id
), tensors AS (
  SELECT
    storage_id, count(*) AS tensor_count,
    first_value(tensor_id ORDER BY name IS NULL, tensor_id) AS tensor_id
  FROM tensor
  GROUP BY storage_id
), peak AS (
  SELECT
    run_id, device_id, first_value(ordinal ORDER BY most_bytes DESC, ordinal) AS ordinal,
    first_value(most_ns ORDER BY most_bytes DESC, ordinal) AS ns
  FROM memory_in_use
  GROUP BY run_id, device_id
), ended AS (
  SELECT run_id, max(ordinal) + 1 AS ordinal FROM launch GROUP BY run_id
)
SELECT
  s.object_id, s.storage_id, s.allocation_id, coalesce(x.label, m.label), coalesce(x.type, m.type), s.device_id, s.size_bytes, m.op,
  m.born_at, s.origin, s.alloc_ordinal, u.first_use_ordinal, u.last_use_ordinal,
  s.free_ordinal, coalesce(e.ordinal, 0), coalesce(u.use_count, 0), coalesce(u.copy_count, 0), coalesce(u.idle_launches, 0),
  u.idle_ordinal, CASE WHEN u.evidence <> u.other_evidence THEN 'both' ELSE u.evidence END,
  coalesce(n.tensor_count, 0), p.ordinal,
  coalesce(
    (s.alloc_ordinal < p.ordinal OR s.alloc_ordinal = p.ordinal AND (p.ns IS NULL OR s.alloc_ns <= p.ns))
      AND (s.free_ordinal IS NULL OR s.free_ordinal > p.ordinal OR s.free_ordinal = p.ordinal AND s.free_ns > p.ns),
    false),
  s.run_id
FROM memory_object s
LEFT JOIN used u ON u.object_id = s.object_id
LEFT JOIN tensors n ON n.storage_id = s.storage_id
LEFT JOIN target_context x ON x.target = 'tensor' AND x.object_id = n.tensor_id
LEFT JOIN target_context m
  ON m.target = CASE WHEN s.storage_id IS NULL THEN 'outside any tensor' ELSE 'storage' END AND m.object_id = s.object_id
LEFT JOIN peak p ON p.run_id = s.run_id AND p.device_id = s.device_id
LEFT JOIN ended e ON e.run_id = s.run_id
