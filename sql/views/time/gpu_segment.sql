-- One stretch of a device's time in which the same work ran, from the first begin to the last end of its work.
--
-- A stretch ends where any work of the device begins or ends. Stretches of one device follow each other without gaps,
-- and their durations add up to the device's whole span. Work that takes no time is left out. Work of other processes on
-- the same GPU counts, too: a GPU that another process keeps busy is not idle.
CREATE VIEW gpu_segment (
  run_id,
  device_id,
  begin_ns,
  end_ns,
  duration_ns,
  -- Kernels that run, collectives too.
  kernel_count,
  -- Kernels among these that exchange data between GPUs, as in `collective`.
  collective_count,
  -- Copies and fills that run.
  copy_count,
  -- The work, if only one runs. Null if another process's does.
  activity_id
) AS
WITH named AS (
  SELECT function_id, collective_kind(name) AS collective FROM function
), busy AS (
  SELECT run_id, device_id, activity_id, kernel_id, kernel_name, begin_ns, end_ns, kind
  FROM gpu_activity
  WHERE kind <> 'synchronization' AND device_id IS NOT NULL AND end_ns > begin_ns
), own AS (
  SELECT
    a.run_id, a.device_id, a.activity_id, a.begin_ns, a.end_ns, a.kind,
    c.kernel_id IS NOT NULL OR coalesce(n.collective, collective_kind(a.kernel_name)) IS NOT NULL AS is_collective
  FROM busy a
  LEFT JOIN launch l ON l.kernel_id = a.kernel_id
  LEFT JOIN named n ON n.function_id = l.function_id
  LEFT JOIN launch_collective c ON c.kernel_id = a.kernel_id
), span AS (
  SELECT
    s.*, r.host, r.rank, d.uuid
  FROM (SELECT run_id, device_id, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns FROM busy GROUP BY run_id, device_id) s
  JOIN run r ON r.run_id = s.run_id
  LEFT JOIN device d ON d.run_id = s.run_id AND d.device_id = s.device_id
), shared AS (
  -- Imported files name no GPUs: ranks have one each, other processes of a host have the same.
  SELECT s.run_id, s.device_id, s.begin_ns, s.end_ns, o.run_id AS other_run_id, o.device_id AS other_device_id
  FROM span s
  JOIN span o ON o.run_id <> s.run_id AND o.begin_ns < s.end_ns AND o.end_ns > s.begin_ns
    AND (o.uuid = s.uuid OR o.uuid IS NULL AND s.uuid IS NULL AND o.device_id = s.device_id
      AND coalesce(o.host, '') = coalesce(s.host, '') AND coalesce(CAST(o.rank AS BIGINT), -1) = coalesce(CAST(s.rank AS BIGINT), -1))
), work AS (
  SELECT *, true AS is_own FROM own
  UNION ALL
  SELECT
    s.run_id, s.device_id, o.activity_id, greatest(o.begin_ns, s.begin_ns), least(o.end_ns, s.end_ns), o.kind, o.is_collective, false
  FROM shared s
  JOIN own o ON o.run_id = s.other_run_id AND o.device_id = s.other_device_id
  WHERE o.begin_ns < s.end_ns AND o.end_ns > s.begin_ns
), edge AS (
  SELECT *, begin_ns AS ns, 1 AS step FROM work
  UNION ALL
  SELECT *, end_ns AS ns, -1 FROM work
), moment AS (
  SELECT
    run_id, device_id, ns,
    sum(CASE WHEN kind = 'kernel' THEN step ELSE 0 END) AS kernels,
    sum(CASE WHEN is_collective THEN step ELSE 0 END) AS collectives,
    sum(CASE WHEN kind = 'kernel' THEN 0 ELSE step END) AS copies,
    sum(CASE WHEN is_own THEN step ELSE 0 END) AS own_works,
    -- While only one runs, the sum of the numbers of all that run is its number.
    sum(step * CAST(activity_id AS BIGINT)) AS numbers
  FROM edge
  GROUP BY run_id, device_id, ns
), running AS (
  SELECT
    run_id, device_id, ns, lead(ns) OVER so_far AS end_ns,
    sum(kernels) OVER so_far AS kernels, sum(collectives) OVER so_far AS collectives, sum(copies) OVER so_far AS copies,
    sum(own_works) OVER so_far AS own_works, sum(numbers) OVER so_far AS numbers
  FROM moment
  WINDOW so_far AS (PARTITION BY run_id, device_id ORDER BY ns)
)
SELECT
  run_id, device_id, ns, end_ns, end_ns - ns, kernels, collectives, copies,
  CASE WHEN kernels + copies = 1 AND own_works = 1 THEN CAST(numbers AS BIGINT UNSIGNED) END
FROM running
WHERE end_ns IS NOT NULL
