-- Cost of tensors
-- One tensor in one launch of one capture: samples attributed to it, samples of memory stalls, or GPU time.
-- Unattributed stalls are rows by charge: all rows add up to the samples.
SELECT
  s.capture, s.kernel_id, s.charge, s.tensor_id,
  sum($value) / max(coalesce(r.runs, 1.0)) AS value,
  sum($value * s.scale * $unit) / power(max(coalesce(r.runs, 1.0)), 2) AS variance
FROM every.stall_charge s
LEFT JOIN every.cost_time t ON t.capture = s.capture AND t.kernel_id = s.kernel_id AND t.run_id = s.run_id
LEFT JOIN (
  SELECT capture, CAST(count(DISTINCT run_id) AS DOUBLE) AS runs
  FROM every.cost_run
  WHERE NOT is_replay
  GROUP BY capture
) r ON r.capture = s.capture
GROUP BY s.capture, s.kernel_id, s.charge, s.tensor_id
