-- One sampling run on one device: what a sample of `pc_sample` stands for in time.
--
-- A multiprocessor takes one sample each period while it runs a kernel, so that a kernel's time is
-- `samples * period / (multiprocessors * clock)`, times taken / delivered where samples were dropped. Measured on an
-- H200 (132 multiprocessors, 1.98 GHz): a kernel of 0.12 ms took 440,000 samples at a period of 64 cycles; the
-- formula gives 0.11 ms. The clock is the device's largest, so the estimate is low where it ran slower. A launch that
-- leaves multiprocessors without a block counts as the part of the GPU that it holds: its time from start to end, which
-- `launch_duration` has of its replays, is longer.
-- Null where the capture lacks a number. A run of replays has samples of several executions: see `cost_time`.
CREATE VIEW sample_time (
  -- The run.
  run_id,
  -- CUDA's device ordinal.
  device_id,
  -- Samples that the hardware took, the dropped ones too; null where the run does not say. Repeats that did not verify
  -- do not count, here and below.
  taken_count,
  -- Those that were dropped.
  lost_count,
  -- Nanoseconds that one delivered sample stands for.
  sample_ns,
  -- Nanoseconds that one sample stands for where none was dropped.
  taken_ns
) AS
WITH seen AS (
  SELECT
    s.run_id,
    sum(CASE WHEN p.result IN ('different', 'failed') THEN 0 ELSE s.sample_count END) AS taken,
    sum(CASE WHEN p.result IN ('different', 'failed') THEN 0 ELSE s.lost_sample_count END) AS lost,
    sum(s.sample_count) AS taken_in_all
  FROM launch_run s
  LEFT JOIN replay p ON p.run_id = s.run_id AND p.ordinal = s.ordinal
  GROUP BY s.run_id
), loss_row AS (
  SELECT run_id, sum(lost_count) AS lost FROM loss WHERE kind = 'sample' GROUP BY run_id
), delivered AS (
  SELECT run_id, sum(samples) AS delivered FROM pc_sample GROUP BY run_id
), drop AS (
  -- The same loss can be known by launch and by run: the larger number counts.
  SELECT
    r.run_id,
    coalesce(d.delivered, 0) AS delivered,
    greatest(
      CAST(coalesce(s.lost, 0) AS DOUBLE),
      coalesce(l.lost, 0) * coalesce(s.taken / nullif(CAST(s.taken_in_all AS DOUBLE), 0.0), 1.0)
    ) AS lost,
    s.taken
  FROM run r
  LEFT JOIN seen s ON s.run_id = r.run_id
  LEFT JOIN loss_row l ON l.run_id = r.run_id
  LEFT JOIN delivered d ON d.run_id = r.run_id
  WHERE r.instrument = 'pc_samples'
)
SELECT
  r.run_id,
  v.device_id,
  drop.taken,
  drop.lost,
  CASE
    WHEN drop.delivered > 0 AND v.multiprocessor_count > 0 AND v.sm_clock_khz > 0
    THEN r.sampling_period_cycles * 1e6 / (v.multiprocessor_count * CAST(v.sm_clock_khz AS DOUBLE))
      * (drop.delivered + drop.lost) / drop.delivered
  END,
  CASE
    WHEN v.multiprocessor_count > 0 AND v.sm_clock_khz > 0
    THEN r.sampling_period_cycles * 1e6 / (v.multiprocessor_count * CAST(v.sm_clock_khz AS DOUBLE))
  END
FROM run r
JOIN drop ON drop.run_id = r.run_id
JOIN device v ON v.run_id = r.run_id
