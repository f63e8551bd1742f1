-- Sums
-- Sums over launches of one capture that repeat each other, by row of the comparison. They are fewer than launches, and
-- all that the comparison reads. program_step: the step, where captures compare per step and have 3 to 500 of them.
WITH measured_row AS (
$rows
), launch_part AS (
$parts
)
SELECT
  p.capture,
  -- Long keys are compared by their hash: names may have 64 KiB.
  CASE WHEN octet_length(p.key) > 256 THEN md5(p.key) ELSE p.key END AS key,
  a.first_kernel_id,
  CASE WHEN '$per' = 'step' AND z.last_step BETWEEN 2 AND 499 THEN h.program_step END AS program_step,
  CASE WHEN '$per' = 'step' THEN h.run_id END AS run_id,
  min(p.what) AS what, min(p.detail) AS detail, max(p.last_detail) AS last_detail,
  count(*) AS launches, sum(p.value) AS value, sum(p.value * p.value) AS squares,
  sum(CASE WHEN p.variance > 0 THEN p.value * p.value ELSE 0.0 END) AS varied_squares,
  sum(p.variance) AS variance
FROM launch_part p
LEFT JOIN diff_alike a ON a.capture = p.capture AND a.kernel_id = p.kernel_id
LEFT JOIN every.launch_phase h ON '$per' = 'step' AND h.capture = p.capture AND h.kernel_id = p.kernel_id
LEFT JOIN (
  SELECT capture, max(program_step) AS last_step FROM every.launch_phase WHERE '$per' = 'step' GROUP BY capture
) z ON z.capture = p.capture
GROUP BY 1, 2, 3, 4, 5
