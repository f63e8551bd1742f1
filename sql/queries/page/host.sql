-- Work of the CPU
-- Ops, ranges and waits for the GPU by thread. from_ns: since the first work of the GPUs, as in the query of that work.
-- is_derived: the op was recorded in another run, and lasts from its first launch call to its last one. A wait has no
-- thread. all_count: spans of all threads, of which the rows are the $top closest to the median step, or to the middle of
-- a program that repeats nothing, ranges before others.
WITH placed AS (
  SELECT
    h.*, b.base_ns, count(*) OVER () AS all_count,
    row_number() OVER (
      ORDER BY h.kind = 'region' DESC, abs(h.begin_ns - b.base_ns - b.center_ns), h.run_id, h.begin_ns, h.name
    ) AS place
  FROM host_span h
  JOIN timeline_clock b ON b.run_id = h.run_id
)
SELECT
  h.run_id, r.rank, h.thread_id, h.begin_ns - h.base_ns AS from_ns, h.end_ns - h.begin_ns AS duration_ns, h.kind, h.name,
  h.is_derived, h.all_count
FROM placed h
JOIN run r ON r.run_id = h.run_id
WHERE h.place <= $top
ORDER BY h.run_id, h.thread_id NULLS LAST, h.begin_ns, h.end_ns DESC, h.name
