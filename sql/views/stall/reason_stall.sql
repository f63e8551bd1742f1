-- One stall reason over all launches: the samples that found warps in this state.
CREATE VIEW reason_stall (
  -- The reason. selected is not a stall: the warp issued an instruction.
  stall_reason,
  -- Target of its samples, as in `stall_reason`.
  class,
  is_memory,
  samples,
  -- Samples among these in cycles in which the scheduler issued nothing: the stall cost time. Never added to `samples`.
  samples_not_issued,
  share,
  -- Part of all samples in which the scheduler issued nothing.
  not_issued_share,
  -- Launches that have some.
  launch_count,
  -- Instructions that have some.
  instruction_count
) AS
WITH summed AS (
  SELECT
    s.stall_reason,
    sum(s.samples) AS samples,
    sum(s.samples_not_issued) AS samples_not_issued,
    count(DISTINCT s.kernel_id) AS launch_count,
    count(DISTINCT concat_ws(' ', s.function_id, s.pc)) AS instruction_count
  FROM sample s
  GROUP BY s.stall_reason
)
SELECT
  s.stall_reason, r.class, r.is_memory, s.samples, s.samples_not_issued,
  s.samples / nullif(sum(s.samples) OVER (), 0.0),
  s.samples_not_issued / nullif(sum(s.samples_not_issued) OVER (), 0.0),
  s.launch_count, s.instruction_count
FROM summed s
JOIN stall_reason r ON r.reason = s.stall_reason
