-- One launch and reason of one run whose attributed and unattributed samples do not add up to its samples. A sound
-- capture has none.
CREATE VIEW conservation_violation (
  -- The run that took the samples.
  run_id,
  kernel_id,
  -- The reason.
  stall_reason,
  -- Samples collected.
  samples,
  -- Sum of attributed and unattributed samples.
  charged
) AS
WITH taken AS (
  SELECT run_id, kernel_id, stall_reason, sum(samples) AS samples
  FROM pc_sample
  GROUP BY run_id, kernel_id, stall_reason
), charged AS (
  SELECT run_id, kernel_id, stall_reason, sum(samples) AS samples
  FROM run_charge
  GROUP BY run_id, kernel_id, stall_reason
)
SELECT t.run_id, t.kernel_id, t.stall_reason, t.samples, coalesce(c.samples, 0.0)
FROM taken t
LEFT JOIN charged c
  ON c.run_id = t.run_id AND c.kernel_id = t.kernel_id AND c.stall_reason = t.stall_reason
WHERE abs(t.samples - coalesce(c.samples, 0.0)) > 1e-6 * greatest(1.0, t.samples)
