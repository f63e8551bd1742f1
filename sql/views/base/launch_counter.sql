-- One hardware counter of one launch, over the repeats of the newest run that measured it.
--
-- Repeats that left other memory than the launch, or that failed, do not count.
CREATE VIEW launch_counter (
  kernel_id,
  -- The metric's name, as in ncu.
  metric,
  -- Its mean over the repeats. Null if the hardware gave no value (a ratio whose divisor is 0).
  value,
  -- Its smallest value.
  low,
  -- Its largest value.
  high,
  -- Difference of high and low divided by the mean. Null with fewer than two values.
  spread,
  -- Repeats that gave a value.
  repeat_count,
  -- Its unit, as CUPTI names it, not scaled.
  unit,
  -- The run that measured it.
  run_id
) AS
WITH trusted AS (
  SELECT c.run_id, c.kernel_id, c.metric, c.value, c.unit
  FROM counter c
  WHERE NOT EXISTS (
    SELECT 1 FROM replay p
    WHERE p.run_id = c.run_id AND p.kernel_id = c.kernel_id AND p.repeat = c.repeat
      AND p.result IN ('different', 'failed')
  )
), measured AS (
  SELECT
    run_id, kernel_id, metric, unit,
    avg(value) AS value, min(value) AS low, max(value) AS high, count(value) AS repeat_count
  FROM trusted
  GROUP BY run_id, kernel_id, metric, unit
), aged AS (
  SELECT *, max(run_id) OVER (PARTITION BY kernel_id, metric) AS newest FROM measured
)
SELECT
  kernel_id, metric, value, low, high,
  CASE WHEN repeat_count > 1 THEN (high - low) / nullif(abs(value), 0.0) END,
  repeat_count, unit, run_id
FROM aged
WHERE run_id = newest
