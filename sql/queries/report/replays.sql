-- Replays
-- The memory of some launches was saved while the program ran (`stallmap-record --replay`). Each can run again by
-- itself and be measured (`stallmap-record replay`). Every replay must leave the same memory as the launch in the
-- program. Measurements of other replays are excluded from all numbers. Rows: outcomes of those launches.
WITH sorted AS (
  SELECT
    CASE outcome WHEN 'verified' THEN 1 WHEN 'unstable' THEN 2 WHEN 'different' THEN 3 WHEN 'failed' THEN 4
      WHEN 'not bundled' THEN 5 ELSE 6 END AS place,
    CASE outcome
      WHEN 'verified' THEN 'verified: the same memory each time'
      WHEN 'unstable' THEN 'unstable: same except bytes that may vary'
      WHEN 'different' THEN 'different: other memory than the launch'
      WHEN 'failed' THEN 'failed: did not complete'
      ELSE outcome
    END AS outcome,
    CASE outcome WHEN 'not bundled' THEN refusal WHEN 'verified' THEN NULL ELSE detail END AS reason,
    CASE WHEN outcome NOT IN ('verified', 'not replayed') THEN n.short_kernel END AS kernel,
    repeat_count, bytes
  FROM replay_quality q
  LEFT JOIN kernel_name n ON n.function_id = q.function_id
), summed AS (
  SELECT
    place, outcome, reason, kernel, count(*) AS launches, sum(repeat_count) AS repeats, sum(bytes) AS bytes
  FROM sorted
  GROUP BY place, outcome, reason, kernel
), placed AS (
  SELECT
    *, sum(launches) OVER () AS all_launches,
    least($top + 1, row_number() OVER (PARTITION BY place ORDER BY launches DESC, reason, kernel)) AS position
  FROM summed
)
SELECT
  sum(launches) / CAST(max(all_launches) AS DOUBLE) AS share,
  sum(launches) AS launches,
  sum(repeats) AS replays,
  sum(bytes) AS bytes,
  max(outcome) AS outcome,
  CASE WHEN position <= $top THEN max(reason) ELSE 'other' END AS reason,
  CASE WHEN position <= $top THEN max(kernel) END AS kernel
FROM placed
GROUP BY place, position
ORDER BY place, position
