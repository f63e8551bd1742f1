-- One launch that one sampling run measured: in the program, or by replays from its bundle.
CREATE VIEW sampled_launch (
  -- The run that took the samples.
  run_id,
  kernel_id,
  -- True if the run replayed the launch.
  is_replay,
  -- Executions that the samples sum over: 1 in the program, else replays that left the same memory as the launch.
  repeats,
  -- GPU cycles between two samples of a multiprocessor: the launch's own period, else the run's. Null if neither is
  -- known.
  period_cycles,
  -- Start time of the run.
  started_ns
) AS
WITH measured AS (
  -- A launch outside the selection may have a few samples. They do not measure it.
  SELECT run_id, kernel_id, false AS is_replay, 1 AS repeats, max(sampling_period_cycles) AS period_cycles
  FROM launch_run
  WHERE matched <> 'replayed' AND recorded
  GROUP BY run_id, kernel_id
  UNION ALL
  -- Samples of other repeats are not in the capture.
  SELECT p.run_id, p.kernel_id, true AS is_replay, count(*) AS repeats, max(s.sampling_period_cycles) AS period_cycles
  FROM replay p
  LEFT JOIN launch_run s ON s.run_id = p.run_id AND s.ordinal = p.ordinal
  WHERE p.result IN ('verified', 'unstable')
  GROUP BY p.run_id, p.kernel_id
)
SELECT
  m.run_id, m.kernel_id, m.is_replay, m.repeats, coalesce(m.period_cycles, r.sampling_period_cycles), r.started_ns
FROM measured m
JOIN run r ON r.run_id = m.run_id
WHERE r.instrument = 'pc_samples'
