-- Accesses of all launches of a capture to one tensor, with the order of reads and writes.
--
-- Loads, stores, blocks and similar counts are of lanes that belong to this tensor rather than to another view of its
-- storage: 0 where only other views accessed it. Bytes are those of its elements, accessed through any view. `target_touch` has storages and allocations too.
-- Memcpys and memsets count if the capture recorded them. Where it holds the requests of a sample of blocks, or a launch
-- has those of an earlier one (`launch_access`), all numbers are of the rows that it holds: lower bounds. What was not
-- read or not written is null if a launch during the storage's lifetime was not observed completely (`launch_observed`).
CREATE VIEW tensor_touch (
  tensor_id,
  -- Its storage.
  storage_id,
  -- Bytes of its elements.
  size_bytes,
  -- Launches that access it.
  launch_count,
  -- Lane accesses: loads, stores and atomics.
  touches,
  -- Loads, by lanes.
  reads,
  -- Stores, by lanes.
  writes,
  -- Atomics, by lanes.
  atomics,
  request_count,
  -- Sectors of 32 bytes, distinct in each request.
  sectors,
  -- Blocks that access it, summed over launches.
  block_count,
  -- Warps that access it, summed over launches.
  warp_count,
  -- Bytes of it that any launch read or wrote.
  touched_bytes,
  -- Their part of the tensor.
  touched_share,
  -- Bytes read.
  read_bytes,
  -- Bytes written.
  written_bytes,
  -- Bytes written that a launch had read before any launch wrote them: updated in place.
  read_before_written_bytes,
  -- Bytes read that no recorded launch, memcpy or memset had written before.
  uninitialized_bytes,
  -- Bytes that no launch read after a launch wrote them last.
  written_never_read_bytes,
  -- Bytes among these that no recorded memcpy read since either: unused writes, or results read by something
  -- unrecorded.
  unused_bytes,
  -- Sampled part of memory, from which bytes are scaled: 1 if they are exact.
  byte_rate
) AS
WITH held AS (
  SELECT count(*) = 0 AS is_whole FROM launch_access WHERE is_sampled LIMIT 1
), ended AS (
  SELECT run_id, max(ordinal) AS ordinal, bool_and(is_listed) AS is_listed FROM unobserved_before GROUP BY run_id
), observed AS (
  SELECT s.storage_id, e.is_listed AND b.launch_count = a.launch_count AS is_whole
  FROM storage s
  JOIN ended e ON e.run_id = s.run_id
  JOIN unobserved_before a ON a.run_id = s.run_id AND a.ordinal = s.alloc_ordinal
  JOIN unobserved_before b ON b.run_id = s.run_id AND b.ordinal = coalesce(s.free_ordinal, e.ordinal)
), touched AS (
  SELECT t.*, h.is_whole AND o.is_whole AS is_whole
  FROM target_touch t
  CROSS JOIN held h
  LEFT JOIN observed o ON o.storage_id = t.storage_id
  WHERE t.target = 'tensor'
)
SELECT
  tensor_id, storage_id, size_bytes, launches, reads + writes + atomics, reads, writes, atomics, requests, sectors, blocks,
  warps, touched_bytes, CAST(touched_bytes AS DOUBLE) / nullif(size_bytes, 0), read_bytes, written_bytes,
  CASE WHEN is_whole THEN read_before_written_bytes END, CASE WHEN is_whole THEN uninitialized_bytes END,
  CASE WHEN is_whole THEN written_never_read_bytes END, CASE WHEN is_whole THEN unused_bytes END, byte_rate
FROM touched
