-- One launch whose time was measured, by the best of its measurements.
--
-- A timeline run of the program comes first. Without one, `launch_duration`: the kernel alone, in replays, or as another
-- profiler measured it.
CREATE VIEW measured_time (
  kernel_id,
  -- From start to end of one execution, nanoseconds. Of several runs, the mean.
  time_ns,
  -- timeline, replay, or import: a time of a profiler without a timeline.
  source
) AS
WITH executed AS (
  -- A graph's node that is repeated in one launch of the graph takes the time of all its executions.
  SELECT run_id, kernel_id, sum(end_ns - begin_ns) AS ns
  FROM gpu_activity
  WHERE kernel_id IS NOT NULL AND end_ns IS NOT NULL
  GROUP BY run_id, kernel_id
), timeline AS (
  SELECT kernel_id, avg(CAST(ns AS DOUBLE)) AS ns FROM executed GROUP BY kernel_id
)
SELECT
  coalesce(t.kernel_id, d.kernel_id), coalesce(t.ns, d.duration_ns),
  CASE
    WHEN t.kernel_id IS NOT NULL THEN 'timeline'
    WHEN d.native_ns IS NULL AND (SELECT count(*) FROM run_option WHERE name = 'imported.tool') > 0 THEN 'import'
    ELSE 'replay'
  END
FROM timeline t
FULL JOIN launch_duration d ON d.kernel_id = t.kernel_id
