-- Samples of one instruction and stall reason, of all launches and all runs together.
--
-- It says which instructions stall, and for which reasons, in a small part of the rows of `pc_sample`. Runs count
-- together, so these samples are no cost: see `sample`.
CREATE VIEW function_sample (
  -- The function.
  function_id,
  pc,
  -- The stall reason.
  stall_reason,
  -- Samples collected.
  samples
) AS
SELECT function_id, pc, stall_reason, sum(samples)
FROM pc_sample
GROUP BY function_id, pc, stall_reason
