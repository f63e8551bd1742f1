-- One instruction in two sampling runs of the same launches: samples in each, for the views that compare runs.
CREATE VIEW sampled_pair (
  -- Compared item: launch, or kernel (its launches that both runs measured, together).
  grain,
  -- The kernel_id of the launch, or the function_id of the kernel.
  grain_id,
  -- The run with the smaller run_id: the program's, if there is one.
  run_a,
  -- The other.
  run_b,
  function_id,
  pc,
  -- Samples that run_a counted.
  samples_a,
  -- Samples that run_b counted.
  samples_b,
  -- Samples of run_a for one execution of each launch, at the run's smallest period.
  mean_a,
  -- Samples of run_b for one execution of each launch, at the run's smallest period.
  mean_b
) AS
WITH measured AS (
  -- Launches of one run may differ in period: a sample at twice the period counts twice.
  SELECT
    run_id, kernel_id, repeats,
    coalesce(period_cycles / CAST(min(period_cycles) OVER (PARTITION BY run_id) AS DOUBLE), 1.0) AS period
  FROM sampled_launch
), pair AS (
  SELECT
    a.kernel_id, l.function_id AS kernel_function_id, a.run_id AS run_a, b.run_id AS run_b,
    a.repeats / a.period AS repeats_a, b.repeats / b.period AS repeats_b
  FROM measured a
  JOIN measured b ON b.kernel_id = a.kernel_id AND b.run_id > a.run_id
  JOIN launch l ON l.kernel_id = a.kernel_id
), taken AS (
  SELECT
    p.kernel_id, p.kernel_function_id, p.run_a, p.run_b, s.function_id, s.pc,
    s.samples AS samples_a, 0.0 AS samples_b, s.samples / p.repeats_a AS mean_a, 0.0 AS mean_b
  FROM pair p
  JOIN stall_share s ON s.run_id = p.run_a AND s.kernel_id = p.kernel_id
  UNION ALL
  SELECT
    p.kernel_id, p.kernel_function_id, p.run_a, p.run_b, s.function_id, s.pc,
    0.0, s.samples, 0.0, s.samples / p.repeats_b
  FROM pair p
  JOIN stall_share s ON s.run_id = p.run_b AND s.kernel_id = p.kernel_id
), grained AS (
  SELECT 'launch' AS grain, kernel_id AS grain_id, * FROM taken
  UNION ALL
  SELECT 'kernel' AS grain, kernel_function_id AS grain_id, * FROM taken
)
SELECT
  grain, grain_id, run_a, run_b, function_id, pc, sum(samples_a), sum(samples_b), sum(mean_a), sum(mean_b)
FROM grained
GROUP BY grain, grain_id, run_a, run_b, function_id, pc
