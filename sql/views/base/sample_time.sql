-- One sampling run on one device: the time that a sample of `pc_sample` represents, at the run's period.
--
-- A multiprocessor takes one sample per period while it runs a kernel. A kernel's time is therefore `samples * period /
-- (multiprocessors * clock)`, times taken / collected if the hardware dropped samples. Samples missing for other
-- reasons (outside the program's kernels, launch not selected, process killed) are not time of the recorded launches.
-- Drops of one known launch scale that launch only: see `cost_time`. Measured on an H200 (132 multiprocessors, 1.98
-- GHz): a kernel of 0.12 ms took 440,000 samples at a period of 64 cycles. The formula gives 0.11 ms. The clock is the
-- device's maximum, so the estimate is low at a lower clock. A launch that leaves multiprocessors without a block
-- counts as the part of the GPU that it uses: `cost_time` makes it a time. Null if the capture lacks a number. A run of replays has samples of several executions, and a launch may have
-- its own period: see `cost_time`.
CREATE VIEW sample_time (
  run_id,
  device_id,
  -- Samples that the hardware took, including dropped ones. Null if the run does not record it. Repeats that did not
  -- verify do not count, here and below.
  taken_count,
  -- Samples that the hardware dropped, minus those attributed to one launch.
  lost_count,
  -- Nanoseconds that one collected sample represents.
  sample_ns,
  -- Nanoseconds that one sample represents if none was dropped.
  taken_ns,
  -- GPU cycles between two samples of a multiprocessor, the basis of both: the run's period, else the smallest
  -- period of a launch.
  period_cycles,
  -- Samples of selected launches that are not in the capture. Samples outside the program's kernels do not count.
  missing_count
) AS
WITH replayed AS (
  SELECT
    s.*, coalesce(p.result NOT IN ('different', 'failed'), true) AS is_verified
  FROM launch_run s
  LEFT JOIN replay p ON p.run_id = s.run_id AND p.ordinal = s.ordinal
), seen AS (
  SELECT
    run_id,
    sum(CASE WHEN is_verified THEN sample_count ELSE 0 END) AS taken,
    sum(CASE WHEN is_verified THEN lost_sample_count ELSE 0 END) AS missing,
    sum(CASE WHEN is_verified AND recorded THEN lost_sample_count ELSE 0 END) AS lost,
    sum(CASE WHEN is_verified THEN sample_count ELSE 0 END)
      / nullif(CAST(sum(sample_count) AS DOUBLE), 0.0) AS verified_share,
    min(sampling_period_cycles) AS period_cycles
  FROM replayed
  GROUP BY run_id
), loss_row AS (
  SELECT
    run_id,
    sum(CASE WHEN reason IN ('taken outside the program''s kernels', 'launch was not selected') THEN 0 ELSE lost_count END)
      AS lost,
    -- A drop that names a launch counts for that launch only. Samples in no record may belong to no kernel.
    sum(CASE WHEN kernel_id IS NULL AND strpos(reason, 'hardware') > 0 AND strpos(reason, 'in no record') = 0
      THEN lost_count ELSE 0 END) AS dropped,
    sum(CASE WHEN kernel_id IS NULL THEN 0 ELSE lost_count END) AS of_launches
  FROM loss
  WHERE kind = 'sample'
  GROUP BY run_id
), collected AS (
  SELECT run_id, sum(samples) AS collected FROM launch_stall GROUP BY run_id
), dropped AS (
  -- The same loss can be recorded by launch and by run: the larger number counts.
  SELECT
    r.run_id,
    coalesce(d.collected, 0) AS collected,
    greatest(
      CAST(coalesce(s.lost, 0) AS DOUBLE) - CAST(coalesce(l.of_launches, 0) AS DOUBLE),
      coalesce(l.dropped, 0) * coalesce(s.verified_share, 1.0), 0.0
    ) AS lost,
    greatest(CAST(coalesce(s.missing, 0) AS DOUBLE), coalesce(l.lost, 0) * coalesce(s.verified_share, 1.0)) AS missing,
    s.taken, coalesce(r.sampling_period_cycles, s.period_cycles) AS period_cycles
  FROM run r
  LEFT JOIN seen s ON s.run_id = r.run_id
  LEFT JOIN loss_row l ON l.run_id = r.run_id
  LEFT JOIN collected d ON d.run_id = r.run_id
  WHERE r.instrument = 'pc_samples'
), timed AS (
  SELECT
    d.*, v.device_id,
    CASE
      WHEN v.multiprocessor_count > 0 AND v.sm_clock_khz > 0
      THEN d.period_cycles * 1e6 / (v.multiprocessor_count * CAST(v.sm_clock_khz AS DOUBLE))
    END AS taken_ns
  FROM dropped d
  JOIN device v ON v.run_id = d.run_id
)
SELECT
  run_id, device_id, taken, lost, CASE WHEN collected > 0 THEN taken_ns * (collected + lost) / collected END, taken_ns,
  period_cycles, missing
FROM timed
