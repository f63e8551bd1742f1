-- What the launches of a capture touched of one tensor, and whether they read what they wrote.
--
-- Loads, stores, blocks and the like are of lanes that belong to this tensor rather than to another view of its storage;
-- bytes are of its elements, whoever accessed them. `target_touch` has storages and allocations too. Copies and fills
-- count where the capture recorded them.
CREATE VIEW tensor_touch (
  -- The tensor.
  tensor_id,
  -- The storage that it is a view of.
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
  -- Warp requests.
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
  -- Bytes read that no launch, copy or fill had written before, as far as the capture knows.
  uninitialized_bytes,
  -- Bytes that no launch read after a launch wrote them last.
  written_never_read_bytes,
  -- Those of them that no recorded copy read since either: written in vain, or results that something unseen reads.
  unused_bytes,
  -- The part of memory that bytes are scaled from: 1 where they are exact.
  byte_rate
) AS
SELECT
  tensor_id, storage_id, size_bytes, launches, reads + writes + atomics, reads, writes, atomics, requests, sectors, blocks,
  warps, touched_bytes, CAST(touched_bytes AS DOUBLE) / nullif(size_bytes, 0), read_bytes, written_bytes,
  read_before_written_bytes, uninitialized_bytes, written_never_read_bytes, unused_bytes, byte_rate
FROM target_touch
WHERE target = 'tensor'
