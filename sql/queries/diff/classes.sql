-- Classes of work
-- Launches that do the same work, by capture: their calls, the size of one, and their time, per step or whole.
WITH unit AS (
  -- Divisors, as in the comparison.
  SELECT capture, CAST(CASE '$per' WHEN 'step' THEN greatest(sum(steps), 1) ELSE 1 END AS DOUBLE) AS unit
  FROM (
    SELECT l.capture, l.run_id, count(DISTINCT o.program_step) AS steps
    FROM every.launch l
    LEFT JOIN every.launch_phase o ON o.capture = l.capture AND o.kernel_id = l.kernel_id
    GROUP BY l.capture, l.run_id
  )
  GROUP BY capture
)
SELECT
  a.capture, a.level, a.key, a.class,
  CASE WHEN a.level = 'op' THEN count(DISTINCT a.op_id) ELSE sum(m.launches) END / max(u.unit) AS calls,
  max(a.size) AS size, sum(m.time) / max(u.unit) AS time
FROM every.launch l
JOIN diff_align a ON a.capture = l.capture AND a.kernel_id = l.kernel_id
JOIN diff_launch m ON m.capture = l.capture AND m.kernel_id = l.kernel_id
JOIN unit u ON u.capture = l.capture
GROUP BY a.capture, a.level, a.key, a.class
