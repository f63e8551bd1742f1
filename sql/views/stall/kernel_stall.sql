-- One stall reason in one kernel, over its launches: the composition of its samples.
CREATE VIEW kernel_stall (
  -- The kernel.
  function_id,
  kernel,
  -- The reason. selected is not a stall: the warp issued an instruction.
  stall_reason,
  is_memory,
  -- Samples, as in the view `sample`, including those of functions that the kernel calls.
  samples,
  samples_not_issued,
  -- Part of the kernel's samples.
  share
) AS
WITH summed AS (
  SELECT
    l.function_id, s.stall_reason, sum(s.samples) AS samples, sum(s.samples_not_issued) AS samples_not_issued
  FROM launch_sample s
  JOIN launch l ON l.kernel_id = s.kernel_id
  GROUP BY l.function_id, s.stall_reason
)
SELECT
  s.function_id, f.demangled_name, s.stall_reason, r.is_memory, s.samples, s.samples_not_issued,
  s.samples / nullif(sum(s.samples) OVER (PARTITION BY s.function_id), 0.0)
FROM summed s
JOIN stall_reason r ON r.reason = s.stall_reason
LEFT JOIN function f ON f.function_id = s.function_id
