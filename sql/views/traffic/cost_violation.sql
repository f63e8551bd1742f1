-- One launch and stall reason whose cost of accesses does not add up to its samples: those of `traffic_charge`, by waiting
-- or by traffic. A sound capture has none.
CREATE VIEW cost_violation (
  kernel_id,
  -- The memory stall. Null for all reasons that are none.
  stall_reason,
  -- Samples, as in `launch_sample`.
  samples,
  -- Sum of attributed and unattributed samples by waiting.
  waited_samples,
  -- The same by traffic.
  charged_samples
) AS
WITH taken AS (
  SELECT s.kernel_id, CASE WHEN r.is_memory THEN s.stall_reason END AS stall_reason, sum(s.samples) AS samples
  FROM launch_sample s
  JOIN stall_reason r ON r.reason = s.stall_reason
  GROUP BY s.kernel_id, CASE WHEN r.is_memory THEN s.stall_reason END
), charged AS (
  SELECT kernel_id, stall_reason, sum(waited_samples) AS waited_samples, sum(samples) AS samples
  FROM traffic_charge
  GROUP BY kernel_id, stall_reason
)
SELECT
  coalesce(t.kernel_id, c.kernel_id), coalesce(t.stall_reason, c.stall_reason), coalesce(t.samples, 0.0),
  coalesce(c.waited_samples, 0.0), coalesce(c.samples, 0.0)
FROM taken t
FULL JOIN charged c ON c.kernel_id = t.kernel_id AND coalesce(c.stall_reason, '') = coalesce(t.stall_reason, '')
WHERE abs(coalesce(t.samples, 0.0) - coalesce(c.samples, 0.0)) > 1e-6 * greatest(1.0, coalesce(t.samples, 0.0))
  OR abs(coalesce(t.samples, 0.0) - coalesce(c.waited_samples, 0.0)) > 1e-6 * greatest(1.0, coalesce(t.samples, 0.0))
