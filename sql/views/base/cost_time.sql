-- One launch's cost: the time that one of its samples represents.
--
-- The samples of a launch share its measured time. Without one, it is estimated from the sampling period, by
-- `sample_time`, over the multiprocessors that the grid occupies: each runs one block, or more.
--
-- Launches of the program share the drops of their run, because samples arrive late. A loss that names its launch
-- counts for that launch only. Replays of one launch run back to back, so each replayed launch has its own drops.
--
-- A launch of a sampling run that matches none of the program's has no time where the program's launches were timed: it is
-- one of them again.
CREATE VIEW cost_time (
  kernel_id,
  -- The run that provides its cost.
  run_id,
  -- Nanoseconds of one execution that one sample of the view `sample` represents. Null if the capture lacks a number.
  sample_ns,
  -- True if the launch's time was measured. See `measured_time`.
  is_measured
) AS
WITH timed AS (
  -- A replay may use another device of its kind, and a run of replays uses one.
  SELECT
    run_id, device_id, sample_ns, taken_ns, CAST(period_cycles AS DOUBLE) AS period_cycles,
    count(*) OVER (PARTITION BY run_id) AS devices
  FROM sample_time
), dropped AS (
  SELECT s.run_id, s.kernel_id, CAST(sum(s.sample_count) AS DOUBLE) AS taken, sum(s.lost_sample_count) AS lost
  FROM launch_run s
  JOIN replay p ON p.run_id = s.run_id AND p.ordinal = s.ordinal
  WHERE p.result IN ('verified', 'unstable')
  GROUP BY s.run_id, s.kernel_id
), own AS (
  SELECT run_id, kernel_id, CAST(sum(lost_count) AS DOUBLE) AS lost
  FROM loss
  WHERE kind = 'sample' AND kernel_id IS NOT NULL
  GROUP BY run_id, kernel_id
), collected AS (
  SELECT run_id, kernel_id, CAST(sum(samples) AS DOUBLE) AS samples FROM launch_stall GROUP BY run_id, kernel_id
), lost AS (
  SELECT o.run_id, o.kernel_id, (d.samples + o.lost) / d.samples AS factor
  FROM own o
  JOIN collected d ON d.run_id = o.run_id AND d.kernel_id = o.kernel_id
  WHERE d.samples > 0
), taken AS (
  SELECT kernel_id, sum(samples) AS samples FROM launch_sample GROUP BY kernel_id
), unmatched AS (
  SELECT r.run_id
  FROM run r
  JOIN (
    SELECT DISTINCT l.run_id FROM measured_time m JOIN launch l ON l.kernel_id = m.kernel_id WHERE m.source = 'timeline'
  ) p ON p.run_id = r.reference_run_id
  WHERE r.run_id <> r.reference_run_id
)
SELECT
  k.kernel_id, k.run_id,
  CASE WHEN u.run_id IS NULL OR m.kernel_id IS NOT NULL THEN coalesce(m.time_ns / nullif(n.samples, 0.0), CASE
    WHEN d.taken > d.lost THEN t.taken_ns * d.taken / (d.taken - d.lost)
    ELSE t.sample_ns * coalesce(w.factor, 1.0)
  END
    -- A launch may have a period of its own.
    * coalesce(k.period_cycles / t.period_cycles, 1.0) / (k.repeats * k.run_count * k.scale)
    * greatest(1.0, coalesce(v.multiprocessor_count / nullif(CAST(l.grid_x AS DOUBLE) * l.grid_y * l.grid_z, 0.0), 1.0))) END,
  m.kernel_id IS NOT NULL
FROM cost_run k
JOIN launch l ON l.kernel_id = k.kernel_id
LEFT JOIN device v ON v.run_id = l.run_id AND v.device_id = l.device_id
LEFT JOIN measured_time m ON m.kernel_id = k.kernel_id
LEFT JOIN unmatched u ON u.run_id = l.run_id
LEFT JOIN taken n ON n.kernel_id = k.kernel_id
LEFT JOIN timed t ON t.run_id = k.run_id AND (t.device_id = l.device_id OR t.devices = 1)
LEFT JOIN dropped d ON d.run_id = k.run_id AND d.kernel_id = k.kernel_id
LEFT JOIN lost w ON w.run_id = k.run_id AND w.kernel_id = k.kernel_id
