-- Accesses of one instruction of one launch to one target that are inefficient in one way, and the estimates of the saving.
--
-- Kinds, in this order of precedence: local_memory (it accesses local memory), atomic_wait (it updates
-- global memory atomically), scattered_access, uncoalesced_view, uncoalesced_access (a quarter or more of its sectors
-- exceed the fewest that hold the bytes: the class of its requests is gather, the tensor is a non-contiguous view, any
-- other), misaligned_access (half or more of its requests have unit stride but do not begin on a sector),
-- gather_latency (its op looks up rows by index, and uses no more sectors than needed). Instructions that take turns,
-- and together leave no byte out (`covered_bytes`), are not uncoalesced.
CREATE VIEW access_fault (
  kernel_id,
  kernel_function_id,
  pc,
  -- Target of the lanes, as in `access_cost`.
  target,
  object_id,
  tensor_id,
  -- The kind.
  finding,
  -- The innermost user line around the launch. In backward, the line whose gradient this is, with (grad).
  line,
  -- The innermost op around the launch.
  op,
  -- The most frequent class of its requests, as in `access_cost`.
  class,
  request_count,
  -- Sectors that they touch.
  sectors,
  -- The fewest sectors that hold the bytes.
  ideal_sectors,
  -- Samples that wait for it.
  samples,
  -- Samples that a complete fix saves: the part of the sectors beyond the fewest. All for local memory, atomics and
  -- gather_latency: loads in flight hide each other's latency.
  saving_samples,
  -- GPU time that `samples` represent, nanoseconds.
  time_ns,
  -- Its part of the launch's time, among the instructions of this kind and target, nanoseconds.
  whole_ns,
  -- Its part of the time that `traffic_relief` saves if the launch stays as far from the busiest resource's rate.
  least_ns,
  -- The same if it reaches that rate, and no more than the part of the launch's samples that waits for memory.
  most_ns,
  -- Its part of the time of a contiguous copy: that of the object's accesses here, and no less than device memory needs.
  fix_ns,
  -- Copies per launch, for views, by `view_version`. 0 for a constant, whose copy serves the rest of the run.
  copies
) AS
WITH accessed AS (
  SELECT
    *,
    ideal_sectors <= 0.75 * sectors AND NOT coalesce(class = 'strided' AND covered_bytes >= stride_bytes, false)
      AS is_excessive
  FROM access_cost
  WHERE memory_space IS DISTINCT FROM 'shared'
), kind AS (
  SELECT
    a.*, t.storage_id, l.kernel, l.op, line_label(l.line, l.forward_line) AS line,
    CASE
      WHEN a.memory_space = 'local' THEN 'local_memory'
      WHEN a.memory_kind IN ('atomic', 'reduction') AND a.object_id IS NOT NULL THEN 'atomic_wait'
      WHEN a.is_excessive AND a.class = 'gather' THEN 'scattered_access'
      WHEN a.is_excessive AND NOT t.is_contiguous THEN 'uncoalesced_view'
      WHEN a.is_excessive THEN 'uncoalesced_access'
      WHEN a.misaligned_share >= 0.5 AND a.ideal_sectors < a.sectors THEN 'misaligned_access'
      WHEN a.memory_kind = 'read' AND a.class <> 'broadcast'
        AND regexp_like(l.op, '(^|::)(embedding|embedding_bag|index|index_select|gather|take|take_along_dim)([.]|$)')
        THEN 'gather_latency'
    END AS finding
  FROM accessed a
  JOIN launch_context l ON l.kernel_id = a.kernel_id
  LEFT JOIN tensor t ON t.tensor_id = a.tensor_id
), saved AS (
  SELECT
    k.*, r.time_ns AS launch_ns, r.busy_ns,
    CASE WHEN k.finding = 'atomic_wait' THEN r.without_ns WHEN k.finding NOT IN ('local_memory', 'gather_latency')
      THEN r.ideal_ns END AS after_ns,
    w.time_ns AS whole_ns, s.memory_share, greatest(r.own_ns * r.time_ns / r.busy_ns, r.copy_ns) AS fix_ns,
    -- One copy serves all uses of a version, and that of a constant the rest of the run.
    CASE WHEN v.is_constant THEN 0.0 ELSE v.version_count / CAST(v.use_count AS DOUBLE) END AS copies,
    count(*) OVER (PARTITION BY k.finding, k.kernel_id, k.target, k.object_id) AS instructions,
    CASE k.finding
      WHEN 'local_memory' THEN k.samples
      WHEN 'atomic_wait' THEN k.samples
      WHEN 'gather_latency' THEN k.samples
      ELSE k.samples * (1 - k.ideal_sectors / k.sectors)
    END AS saving_samples
  FROM kind k
  LEFT JOIN traffic_relief r ON r.kernel_id = k.kernel_id AND r.target = k.target AND r.object_id = k.object_id
  LEFT JOIN launch_time w ON w.kernel_id = k.kernel_id
  LEFT JOIN (
    SELECT kernel_id, sum(memory_samples) / nullif(sum(samples), 0.0) AS memory_share FROM sample_cost GROUP BY kernel_id
  ) s ON s.kernel_id = k.kernel_id
  LEFT JOIN view_version v
    ON v.function_id = k.kernel_function_id AND v.storage_id = k.storage_id AND k.finding = 'uncoalesced_view'
  WHERE k.finding IS NOT NULL
)
SELECT
  kernel_id, kernel_function_id, pc, target, object_id, tensor_id, finding, line, op, class, request_count, sectors,
  ideal_sectors, samples, saving_samples, time_ns, whole_ns / instructions,
  launch_ns * (1.0 - after_ns / busy_ns) / instructions, least(launch_ns - after_ns, launch_ns * coalesce(memory_share, 1.0)) / instructions,
  coalesce(fix_ns / instructions, time_ns), copies
FROM saved
