-- One run with work of the GPUs: the time from which a timeline of it counts, and the time at which one opens.
--
-- Runs that overlap count from the first work of all of them.
CREATE VIEW timeline_clock (
  run_id,
  -- The time from which it counts, nanoseconds since the Unix epoch.
  base_ns,
  -- Begin of the median step of the device with the most steps, else the middle of the longest run, nanoseconds since
  -- `base_ns`: the same for all runs.
  center_ns
) AS
WITH span AS (
  SELECT run_id, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns
  FROM gpu_activity
  WHERE kind <> 'synchronization' AND device_id IS NOT NULL AND end_ns > begin_ns
  GROUP BY run_id
), bound AS (
  SELECT min(begin_ns) AS first_ns, max(begin_ns) AS last_ns, min(end_ns) AS end_ns FROM span
), base AS (
  SELECT s.run_id, CASE WHEN b.last_ns < b.end_ns THEN b.first_ns ELSE s.begin_ns END AS base_ns, s.end_ns
  FROM span s
  CROSS JOIN bound b
), ordered AS (
  SELECT
    run_id, device_id, begin_ns, count(*) OVER (PARTITION BY run_id, device_id) AS steps,
    row_number() OVER (PARTITION BY run_id, device_id ORDER BY duration_ns, program_step) AS position
  FROM program_step
), median AS (
  -- Ties go to the first device.
  SELECT
    run_id, begin_ns, row_number() OVER (ORDER BY steps DESC, run_id, device_id) AS position
  FROM ordered
  WHERE position = (steps + 1) / 2
), center AS (
  SELECT coalesce(
    (SELECT max(m.begin_ns - b.base_ns) FROM median m JOIN base b ON b.run_id = m.run_id WHERE m.position = 1),
    (SELECT max(end_ns - base_ns) / 2 FROM base)
  ) AS ns
)
SELECT b.run_id, b.base_ns, c.ns
FROM base b
CROSS JOIN center c
