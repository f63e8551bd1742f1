-- One stall reason over all launches: how many samples found warps so.
CREATE VIEW reason_stall (
  -- The reason; selected is no stall: the warp issued an instruction.
  stall_reason,
  -- What its samples are charged to, as in `stall_reason`.
  class,
  -- Whether it is a memory stall.
  is_memory,
  -- Samples, as in the view `sample`.
  samples,
  -- Those among cycles in which the scheduler issued nothing, so that the stall cost time; never added to `samples`.
  samples_not_issued,
  -- Part of all samples.
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
