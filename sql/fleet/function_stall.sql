-- One stall reason of one kernel by the content of its code, in all captures of a fleet: the mix of its stalls.
CREATE VIEW function_stall (
  -- The kernel: hash of its code and name.
  function_id,
  kernel,
  -- The reason. selected is not a stall: the warp issued an instruction.
  stall_reason,
  -- Captures with such samples.
  capture_count,
  -- Samples.
  samples,
  -- Samples among these in cycles in which the scheduler issued nothing.
  samples_not_issued,
  -- Part of the kernel's samples in all captures.
  share,
  -- Part in the capture where it is the least, of those that have some.
  share_low,
  -- Part in the capture where it is the greatest.
  share_high
) AS
SELECT
  function_id, min(kernel), CAST(stall_reason AS VARCHAR), count(DISTINCT capture), sum(samples),
  sum(samples_not_issued), sum(samples) / nullif(sum(sum(samples)) OVER (PARTITION BY function_id), 0.0),
  min(share), max(share)
FROM kernel_stall
GROUP BY function_id, CAST(stall_reason AS VARCHAR)
