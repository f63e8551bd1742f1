-- Work of the CPU
-- Ops, ranges and waits for the GPU by thread. from_ns: since the first work of the GPUs, as in the query of that work.
-- is_derived: the op was recorded in another run, and lasts from its first launch call to its last one. A wait has no
-- thread. all_count: spans of all threads, of which the rows are the $top closest to the median step, or to the middle of
-- a program that repeats nothing, ranges before others.
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
    row_number() OVER (PARTITION BY run_id, device_id ORDER BY duration_ns, program_step) AS place
  FROM program_step
), median AS (
  SELECT begin_ns, run_id FROM ordered WHERE place = (steps + 1) / 2 ORDER BY steps DESC, run_id, device_id LIMIT 1
), center AS (
  SELECT coalesce(
    (SELECT m.begin_ns - b.base_ns FROM median m JOIN base b ON b.run_id = m.run_id),
    (SELECT max(end_ns - base_ns) / 2 FROM base)
  ) AS ns
), placed AS (
  SELECT
    h.*, b.base_ns, count(*) OVER () AS all_count,
    row_number() OVER (
      ORDER BY h.kind = 'region' DESC, abs(h.begin_ns - b.base_ns - c.ns), h.run_id, h.begin_ns, h.name
    ) AS place
  FROM host_span h
  JOIN base b ON b.run_id = h.run_id
  CROSS JOIN center c
)
SELECT
  h.run_id, r.rank, h.thread_id, h.begin_ns - h.base_ns AS from_ns, h.end_ns - h.begin_ns AS duration_ns, h.kind, h.name,
  h.is_derived, h.all_count
FROM placed h
JOIN run r ON r.run_id = h.run_id
WHERE h.place <= $top
ORDER BY h.run_id, h.thread_id NULLS LAST, h.begin_ns, h.end_ns DESC, h.name
