-- Stalls by kernel
-- Stall reasons of warps: each kernel's samples by stall reason. share: part of the kernel's samples. is_memory: the
-- reason is a wait for memory. Kernels beyond the costliest are aggregated.
WITH taken AS (
  SELECT l.function_id, s.stall_reason, sum(s.samples) AS samples, sum(s.samples_not_issued) AS samples_not_issued
  FROM launch_sample s
  JOIN launch l ON l.kernel_id = s.kernel_id
  GROUP BY l.function_id, s.stall_reason
), totaled AS (
  SELECT *, sum(samples) OVER (PARTITION BY function_id) AS kernel_samples
  FROM taken
), placed AS (
  SELECT *, least($top + 1, dense_rank() OVER (ORDER BY kernel_samples DESC, function_id)) AS place
  FROM totaled
), summed AS (
  SELECT
    p.place,
    max(p.function_id) AS function_id,
    count(DISTINCT p.function_id) AS kernels,
    max(f.short_kernel) AS kernel,
    p.stall_reason,
    bool_or(r.is_memory) AS is_memory,
    sum(p.samples) AS samples,
    sum(p.samples_not_issued) AS samples_not_issued
  FROM placed p
  LEFT JOIN kernel_name f ON f.function_id = p.function_id
  LEFT JOIN stall_reason r ON r.reason = p.stall_reason
  GROUP BY p.place, p.stall_reason
)
SELECT
  CASE WHEN place <= $top THEN function_id END AS function_id,
  CASE WHEN place <= $top THEN kernel ELSE 'other (' || CAST(max(kernels) OVER (PARTITION BY place) AS VARCHAR) || ')' END
    AS kernel,
  stall_reason,
  is_memory,
  samples,
  samples / sum(samples) OVER (PARTITION BY place) AS share,
  samples_not_issued
FROM summed
ORDER BY place, is_memory DESC, samples DESC, stall_reason
