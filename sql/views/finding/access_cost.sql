-- Memory stalls that one instruction caused by its accesses to one target, in one launch, with the quality of these
-- accesses.
--
-- The rows are the samples that `stall_charge` attributes to instructions that access memory, with their accesses if
-- recorded. Counts are exact, as in `pc_tensor`. Class, stride and misalignment are those of the recorded
-- rows: in a sample of blocks if `launch_access` says so, or in the model launch. Sectors are units of 32 bytes, distinct
-- in each warp request.
CREATE VIEW access_cost (
  kernel_id,
  kernel_function_id,
  -- The function that holds the instruction: the kernel, or one that it calls.
  function_id,
  -- The producer: the instruction that warps waited for.
  pc,
  -- Memory space of its accesses: global, local, shared and others, as in `instruction`. Null if the code was not
  -- decoded.
  memory_space,
  -- Kind of access: read, write, atomic, reduction and others, as in `instruction`.
  memory_kind,
  -- Target of the lanes, as in `stall_charge`.
  target,
  object_id,
  tensor_id,
  -- Attributed samples.
  samples,
  -- Estimated time that they represent, nanoseconds. See `cost_time`.
  time_ns,
  -- Warp requests to the target. Null if accesses were not recorded.
  request_count,
  -- Sectors that they touch.
  sectors,
  -- The fewest sectors that hold the bytes.
  ideal_sectors,
  -- The most frequent class of the instruction's requests, as in `access_pattern`: unit, broadcast, strided, tiled,
  -- gather.
  class,
  -- Part of its requests that have unit stride but do not begin on a sector.
  misaligned_share,
  -- The most frequent byte distance from lane to lane. Null if lanes are irregular.
  stride_bytes,
  -- Bytes of a stride that the instructions of its function with this stride access together, in this launch and
  -- target, each by its most frequent offset in the stride. Equal to the stride if together they leave no byte out,
  -- although each alone does. Null if lanes are irregular.
  covered_bytes
) AS
WITH timed AS (
  SELECT
    c.kernel_id, c.producer_function_id AS function_id, c.producer_pc AS pc, CAST(c.target AS VARCHAR) AS target,
    coalesce(c.tensor_id, c.storage_id, c.allocation_id) AS object_id, c.tensor_id,
    sum(c.samples) AS samples, sum(c.samples * t.sample_ns) AS time_ns
  FROM launch_charge c
  LEFT JOIN cost_time t ON t.run_id = c.run_id AND t.kernel_id = c.kernel_id
  WHERE c.is_memory AND c.producer_pc IS NOT NULL
  GROUP BY c.kernel_id, c.producer_function_id, c.producer_pc, CAST(c.target AS VARCHAR),
    coalesce(c.tensor_id, c.storage_id, c.allocation_id), c.tensor_id
), touched AS (
  SELECT
    kernel_id, function_id, pc, CAST(kind AS VARCHAR) AS kind, CAST(target AS VARCHAR) AS target,
    coalesce(tensor_id, storage_id, allocation_id) AS object_id,
    CAST(sum(request_count) AS DOUBLE) AS request_count, CAST(sum(sectors) AS DOUBLE) AS sectors,
    CAST(sum(ideal_sectors) AS DOUBLE) AS ideal_sectors
  FROM pc_tensor_part
  WHERE coalesce(tensor_id, storage_id, allocation_id) IS NOT NULL
  GROUP BY kernel_id, function_id, pc, kind, target, coalesce(tensor_id, storage_id, allocation_id)
), uneven AS (
  -- Strides that instructions of a function access at several offsets, or with several sizes. Few are: all other
  -- instructions cover what one of them accesses.
  SELECT kernel_id, function_id, stride_bytes
  FROM access_stride
  WHERE stride_bytes IS NOT NULL
  GROUP BY kernel_id, function_id, stride_bytes
  HAVING min(access_bytes) < max(access_bytes) OR min(stride_offset) < max(stride_offset)
), placed AS (
  -- Instructions at one offset access the same bytes of a stride.
  SELECT
    t.kernel_id, t.function_id, t.kind, t.target, coalesce(t.tensor_id, t.storage_id, t.allocation_id) AS object_id,
    p.stride_bytes, p.stride_offset, max(p.access_bytes) AS access_bytes
  FROM uneven u
  JOIN access_stride p
    ON p.kernel_id = u.kernel_id AND p.function_id = u.function_id AND p.stride_bytes = u.stride_bytes
  JOIN launch l ON coalesce(l.accesses_of, l.kernel_id) = p.kernel_id
  JOIN pc_tensor_part t ON t.kernel_id = l.kernel_id AND t.function_id = p.function_id AND t.pc = p.pc
  GROUP BY t.kernel_id, t.function_id, t.kind, t.target, coalesce(t.tensor_id, t.storage_id, t.allocation_id),
    p.stride_bytes, p.stride_offset
), covered AS (
  SELECT
    kernel_id, function_id, CAST(kind AS VARCHAR) AS kind, CAST(target AS VARCHAR) AS target, object_id, stride_bytes,
    sum(access_bytes) AS covered_bytes
  FROM placed
  GROUP BY kernel_id, function_id, kind, target, object_id, stride_bytes
), accessed AS (
  SELECT
    t.*, p.class, p.misaligned_share, p.stride_bytes,
    coalesce(c.covered_bytes, CASE WHEN p.stride_bytes IS NOT NULL THEN p.access_bytes END) AS covered_bytes
  FROM touched t
  JOIN launch l ON l.kernel_id = t.kernel_id
  LEFT JOIN access_stride p
    ON p.kernel_id = coalesce(l.accesses_of, t.kernel_id) AND p.function_id = t.function_id AND p.pc = t.pc
  LEFT JOIN covered c
    ON c.kernel_id = t.kernel_id AND c.function_id = t.function_id AND c.kind = t.kind AND c.target = t.target
    AND c.object_id = t.object_id AND c.stride_bytes = p.stride_bytes
)
SELECT
  c.kernel_id, l.function_id, c.function_id, c.pc, i.memory_space, i.memory_kind, c.target, c.object_id, c.tensor_id,
  c.samples, c.time_ns, t.request_count, t.sectors, t.ideal_sectors, t.class, t.misaligned_share,
  t.stride_bytes, t.covered_bytes
FROM timed c
JOIN launch l ON l.kernel_id = c.kernel_id
LEFT JOIN instruction i ON i.function_id = c.function_id AND i.pc = c.pc
LEFT JOIN accessed t
  ON t.kernel_id = c.kernel_id AND t.function_id = c.function_id AND t.pc = c.pc AND t.target = c.target
  AND t.object_id = c.object_id
