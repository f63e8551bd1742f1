-- Cost of instructions
-- One instruction of one launch of one capture: samples, samples of memory stalls, or GPU time. Of time, a launch
-- without samples is a row without pc.
SELECT
  s.capture, s.kernel_id, s.function_id, s.pc,
  sum($value) AS value,
  sum($value * k.scale * $unit) AS variance
FROM every.sample s
JOIN every.stall_reason q ON q.capture = s.capture AND q.reason = s.stall_reason
JOIN every.cost_run k ON k.capture = s.capture AND k.kernel_id = s.kernel_id AND k.run_id = s.run_id
LEFT JOIN every.cost_time t ON t.capture = s.capture AND t.kernel_id = s.kernel_id AND t.run_id = s.run_id
GROUP BY s.capture, s.kernel_id, s.function_id, s.pc
UNION ALL
SELECT
  m.capture, m.kernel_id, l.function_id, NULL, m.time_ns, power(32.0, 2) + power(0.01 * m.time_ns, 2)
FROM every.measured_time m
JOIN every.launch l ON l.capture = m.capture AND l.kernel_id = m.kernel_id
LEFT JOIN (SELECT DISTINCT capture, kernel_id FROM every.sample) s
  ON s.capture = m.capture AND s.kernel_id = m.kernel_id
WHERE $is_time AND s.kernel_id IS NULL
