-- Cost of tensors
-- One tensor in one launch of one capture: samples attributed to it, samples of memory stalls, or GPU time.
-- Unattributed stalls are rows by charge: all rows add up to the samples. Of time, launches without samples are a row,
-- too.
SELECT
  s.capture, s.kernel_id, s.charge, s.tensor_id,
  sum($value) AS value,
  sum($value * s.scale * $unit) AS variance
FROM every.traffic_charge s
LEFT JOIN every.cost_time t ON t.capture = s.capture AND t.kernel_id = s.kernel_id AND t.run_id = s.run_id
GROUP BY s.capture, s.kernel_id, s.charge, s.tensor_id
UNION ALL
SELECT
  m.capture, m.kernel_id, 'no samples', NULL, m.time_ns, power(32.0, 2) + power(0.01 * m.time_ns, 2)
FROM every.measured_time m
LEFT JOIN (SELECT DISTINCT capture, kernel_id FROM every.traffic_charge) s
  ON s.capture = m.capture AND s.kernel_id = m.kernel_id
WHERE $is_time AND s.kernel_id IS NULL
