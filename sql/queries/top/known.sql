-- Known
-- Basis of the costs: launches sampled, samples collected, GPUs and sampling periods. DISTINCT: a run with one row per
-- launch would make a lookup quadratic.
SELECT
  (SELECT count(*) FROM program_launch) AS launches,
  (SELECT count(DISTINCT k.kernel_id) FROM cost_run k JOIN program_launch p ON p.kernel_id = k.kernel_id) AS sampled_launches,
  (SELECT CAST(coalesce(sum(samples), 0) AS DOUBLE) FROM launch_stall WHERE run_id IN (SELECT DISTINCT run_id FROM cost_run))
    AS collected_samples,
  (SELECT count(*) FROM measured_time m JOIN program_launch p ON p.kernel_id = m.kernel_id) AS measured_launches,
  (
    SELECT CAST(coalesce(sum(missing_count), 0) AS DOUBLE)
    FROM (SELECT DISTINCT run_id, missing_count FROM sample_time WHERE run_id IN (SELECT DISTINCT run_id FROM cost_run))
  ) AS lost_samples,
  (SELECT string_agg(name, ', ' ORDER BY name) FROM (SELECT DISTINCT name FROM device)) AS gpus,
  (
    SELECT string_agg(CAST(period_cycles AS VARCHAR), ', ' ORDER BY period_cycles)
    FROM (
      SELECT DISTINCT period_cycles
      FROM sampled_launch
      WHERE run_id IN (SELECT DISTINCT run_id FROM cost_run)
    )
  ) AS periods
