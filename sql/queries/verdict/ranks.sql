-- Ranks
-- The rank that comes last to collectives by the most time, if that is a hundredth or more of the run.
WITH span AS (
  SELECT run_id, max(end_ns) - min(begin_ns) AS ns FROM gpu_activity GROUP BY run_id
)
SELECT s.rank, s.collective_count, s.last_count, CAST(s.delay_ns AS DOUBLE) AS late_ns, s.cause
FROM rank_skew s
JOIN span a ON a.run_id = s.run_id
WHERE s.last_count > 0 AND s.delay_ns >= 0.01 * a.ns
ORDER BY s.delay_ns DESC, s.rank
LIMIT 1
