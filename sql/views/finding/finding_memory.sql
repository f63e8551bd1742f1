-- One way in which storages hold memory without need, by `life_pattern`, per device. In a program without a framework,
-- the same for the driver's allocations. unused_memory: nothing uses them. late_free and idle_memory: at the
-- peak they are not needed any more, or for a while. dead_write: their content is overwritten unread.
--
-- Memory has no samples, so samples are 0 here. Bytes measure the cost. Objects of one megabyte or more count, each
-- once. Memory held for fewer than 16 launches does not count.
--
-- Time saved by dead_write in steps: from 0, as launches can do other work, to 1.15 times that of the launches that write.
-- Else unknown.
CREATE VIEW finding_memory (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel: null, as there is none.
  kernel,
  -- The line that allocated the largest.
  line,
  -- The op that allocated the largest.
  op,
  -- No tensor: null.
  tensor_id,
  -- 0.
  samples,
  -- 0.
  saving_samples,
  -- GPU time that `samples` represent, nanoseconds. See `launch_time`.
  time_ns,
  saving_low_ns,
  saving_high_ns,
  fix_ns,
  pays_from,
  query
) AS
WITH held AS (
  SELECT
    CASE pattern WHEN 'unused' THEN 'unused_memory' WHEN 'late free' THEN 'late_free' WHEN 'idle' THEN 'idle_memory'
      ELSE 'dead_write' END AS finding,
    device_id, storage_id, allocation_id, max(object) AS object, max(type) AS type, max(op) AS op, max(born_at) AS born_at,
    max(size_bytes) AS size_bytes, max(launches) AS launches, bool_and(is_certain) AS is_certain
  FROM life_pattern
  WHERE size_bytes >= 1048576
    AND (pattern IN ('unused', 'dead write') OR pattern IN ('late free', 'idle') AND is_at_peak AND launches >= 16)
  GROUP BY pattern, device_id, storage_id, allocation_id
), rewritten AS (
  -- The launches that write what is overwritten unread.
  SELECT d.object_id, d.storage_id IS NOT NULL AS is_storage, sum(t.time_ns) AS time_ns, max(p.program_step) AS program_step
  FROM dead_write d
  JOIN launch_time t ON t.kernel_id = d.kernel_id
  LEFT JOIN launch_phase p ON p.kernel_id = d.kernel_id
  GROUP BY d.object_id, d.storage_id IS NOT NULL
), summed AS (
  SELECT
    finding, device_id, count(*) AS objects, CASE WHEN count(storage_id) > 0 THEN 'storage' ELSE 'allocation' END AS noun,
    CAST(sum(size_bytes) AS DOUBLE) AS size_bytes, sum(r.time_ns) AS time_ns, count(DISTINCT r.program_step) AS steps, bool_and(is_certain) AS is_certain,
    first_value(object ORDER BY size_bytes DESC, storage_id, allocation_id) AS object,
    first_value(type ORDER BY size_bytes DESC, storage_id, allocation_id) AS type,
    first_value(op ORDER BY size_bytes DESC, storage_id, allocation_id) AS op,
    first_value(born_at ORDER BY size_bytes DESC, storage_id, allocation_id) AS born_at,
    first_value(launches ORDER BY size_bytes DESC, storage_id, allocation_id) AS launches
  FROM held
  LEFT JOIN rewritten r
    ON held.finding = 'dead_write' AND r.object_id = coalesce(held.storage_id, held.allocation_id)
    AND r.is_storage = (held.storage_id IS NOT NULL)
  GROUP BY finding, device_id
)
SELECT
  finding,
  CAST(objects AS VARCHAR) || ' ' || noun || CASE objects WHEN 1 THEN '' ELSE 's' END || ' of GPU '
    || CAST(device_id AS VARCHAR),
  CAST(CAST(size_bytes / 1048576 AS DECIMAL(12, 1)) AS VARCHAR) || ' MiB in ' || CAST(objects AS VARCHAR) || ' ' || noun
    || CASE objects WHEN 1 THEN '' ELSE 's' END || CASE finding
      WHEN 'unused_memory' THEN ' are allocated and never used'
      WHEN 'late_free' THEN ' are held after their last use, at the memory peak'
      WHEN 'idle_memory' THEN ' lie idle between two uses, at the memory peak'
      ELSE ' are written and then overwritten unread' || CASE WHEN is_certain THEN '' ELSE ', judged by ranges and bytes'
        END END
    || '. The largest is `' || coalesce(object, 'not named') || '`' || coalesce(' (' || type || ')', '')
    || coalesce(', allocated at ' || born_at, '')
    || CASE WHEN finding IN ('late_free', 'idle_memory') THEN ', for ' || CAST(launches AS VARCHAR) || ' launches' ELSE ''
    END || '.',
  CAST(CAST(size_bytes / 1048576 AS DECIMAL(12, 1)) AS VARCHAR) || ' MiB in ' || CAST(objects AS VARCHAR) || ' ' || noun
    || CASE objects WHEN 1 THEN ': ' ELSE 's, the largest ' END || coalesce(object, 'not named'),
  CASE finding
    WHEN 'unused_memory' THEN 'Do not allocate it, or allocate it where it is needed.'
    WHEN 'late_free' THEN 'Drop the last reference to it after its last use (del, or a smaller scope).'
    WHEN 'idle_memory' THEN 'Free it and recompute it (checkpointing), or offload it meanwhile.'
    ELSE 'Leave out writes that nothing reads, such as an initialization (empty instead of zeros).'
  END,
  CAST(NULL AS VARCHAR) AS kernel, born_at, op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id,
  0.0 AS samples, 0.0 AS saving_samples, time_ns,
  -- Writes are proved where every launch in between was observed: in some steps.
  CASE WHEN s.steps > 0 OR a.steps = 0 THEN 0.0 * time_ns END AS saving_low_ns,
  CASE WHEN s.steps > 0 OR a.steps = 0 THEN 1.15 * time_ns * greatest(coalesce(CAST(a.steps AS DOUBLE) / nullif(s.steps, 0), 1.0), 1.0) END AS saving_high_ns, CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT pattern, storage_id, allocation_id, object, type, size_bytes, op, born_at, ordinal, launches, is_certain FROM life_pattern WHERE pattern = '''
    || CASE finding WHEN 'unused_memory' THEN 'unused' WHEN 'late_free' THEN 'late free' WHEN 'idle_memory' THEN 'idle'
      ELSE 'dead write' END || ''' ORDER BY size_bytes DESC'
FROM summed s
CROSS JOIN (SELECT count(DISTINCT program_step) AS steps FROM launch_phase) a
