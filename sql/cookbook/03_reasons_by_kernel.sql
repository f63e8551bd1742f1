-- Why do the warps of my costliest kernels stand still?
-- One row is a stall reason of one of the three kernels with most samples; percent is its part of the kernel's samples.
-- Capture: inference_views
WITH costliest AS (
  SELECT function_id, kernel, samples AS kernel_samples FROM kernel_cost ORDER BY samples DESC, function_id LIMIT 3
), reason AS (
  SELECT k.kernel, k.kernel_samples, s.stall_reason AS reason, sum(s.samples) AS stalls
  FROM costliest k
  JOIN launch l ON l.function_id = k.function_id
  JOIN sample s ON s.kernel_id = l.kernel_id
  GROUP BY k.kernel, k.kernel_samples, s.stall_reason
)
SELECT
  regexp_replace(regexp_replace(replace(kernel, '(anonymous namespace)::', ''), '[<(].*', ''), '^void ', '') AS kernel,
  reason, round(stalls, 1) AS samples, round(100.0 * stalls / kernel_samples, 1) AS percent
FROM reason
WHERE stalls > 0.02 * kernel_samples
ORDER BY kernel_samples DESC, stalls DESC, reason
