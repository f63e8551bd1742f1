-- Known
-- What costs are made of: launches that were sampled, samples that were delivered, GPUs and sampling periods.
-- DISTINCT, because a run that is there once for each launch makes a lookup take the square of their number.
SELECT
  (SELECT count(*) FROM launch) AS launches,
  (SELECT count(DISTINCT kernel_id) FROM cost_run) AS sampled_launches,
  (SELECT CAST(coalesce(sum(samples), 0) AS DOUBLE) FROM pc_sample WHERE run_id IN (SELECT DISTINCT run_id FROM cost_run))
    AS delivered_samples,
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
