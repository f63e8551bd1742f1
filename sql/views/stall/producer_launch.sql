-- One producer of one stall in one launch whose producers weigh other than in its function: the factor of its weight there.
--
-- `producer` weighs the producers of a function over all its launches. A launch that was observed completely and has no
-- access of a producer did not execute it, and its weight goes to producers that it executed. A stall whose producers
-- have no access at all keeps their weights, and has no rows. Copies share their weight by the level of the objects that
-- the launch reads, as in `copy_level`: in the next launch another operand may be the large one.
CREATE VIEW producer_launch (
  kernel_id,
  -- The function.
  function_id,
  -- The stalled instruction.
  pc,
  stall_reason,
  producer_function_id,
  producer_pc,
  -- Factor of its weight in this launch: 0 if the launch did not execute it.
  factor
) AS
WITH awaited AS (
  SELECT DISTINCT function_id, producer_function_id, producer_pc
  FROM producer
  WHERE producer_space = 'global' AND weight < 1.0
), sampled AS (
  SELECT s.kernel_id, s.function_id
  FROM pc_sample s
  JOIN launch_observed o ON o.kernel_id = s.kernel_id
  WHERE o.is_whole
  GROUP BY s.kernel_id, s.function_id
), missing AS (
  SELECT s.kernel_id, a.function_id, a.producer_function_id, a.producer_pc
  FROM sampled s
  JOIN awaited a ON a.function_id = s.function_id
  LEFT ANTI JOIN pc_tensor_share t
    ON t.kernel_id = s.kernel_id AND t.function_id = a.producer_function_id AND t.pc = a.producer_pc
), weighed AS (
  SELECT
    x.kernel_id, w.function_id, w.pc, w.stall_reason, w.producer_function_id, w.producer_pc,
    m.producer_pc IS NOT NULL AS is_missing, w.weight
  FROM (SELECT DISTINCT kernel_id, function_id FROM missing) x
  JOIN producer w ON w.function_id = x.function_id
  LEFT JOIN missing m
    ON m.kernel_id = x.kernel_id AND m.function_id = w.function_id AND m.producer_function_id = w.producer_function_id
    AND m.producer_pc = w.producer_pc
  WHERE w.weight < 1.0
), summed AS (
  SELECT
    *,
    sum(CASE WHEN is_missing THEN 0.0 ELSE weight END) OVER (PARTITION BY kernel_id, function_id, pc, stall_reason)
      AS executed,
    sum(weight) OVER (PARTITION BY kernel_id, function_id, pc, stall_reason) AS whole
  FROM weighed
), executed AS (
  SELECT
    kernel_id, function_id, pc, stall_reason, producer_function_id, producer_pc,
    CASE WHEN is_missing THEN 0.0 ELSE whole / executed END AS factor
  FROM summed
  WHERE executed > 1e-9 AND executed < whole
  GROUP BY kernel_id, function_id, pc, stall_reason, producer_function_id, producer_pc, is_missing, whole, executed
), copied AS (
  SELECT
    c.kernel_id, w.function_id, w.pc, w.stall_reason, w.producer_function_id, w.producer_pc, c.object_id, w.weight,
    c.device_share
  FROM producer w
  JOIN copy_level c ON c.function_id = w.producer_function_id AND c.pc = w.producer_pc
  WHERE w.weight < 1.0
), object AS (
  -- A copy from L2 is the last to arrive in about a twentieth of the time.
  SELECT
    kernel_id, function_id, pc, stall_reason, object_id, sum(weight) AS weight, avg(device_share) + 0.05 AS share
  FROM copied
  GROUP BY kernel_id, function_id, pc, stall_reason, object_id
), shared AS (
  SELECT
    *,
    share / sum(share) OVER w * sum(weight) OVER w / weight AS factor
  FROM object
  WINDOW w AS (PARTITION BY kernel_id, function_id, pc, stall_reason)
), moved AS (
  -- All objects of a stall, or none.
  SELECT *, max(abs(factor - 1.0)) OVER (PARTITION BY kernel_id, function_id, pc, stall_reason) AS most FROM shared
)
SELECT * FROM executed
UNION ALL
SELECT
  c.kernel_id, c.function_id, c.pc, c.stall_reason, c.producer_function_id, c.producer_pc, min(s.factor)
FROM copied c
JOIN moved s
  ON s.kernel_id = c.kernel_id AND s.function_id = c.function_id AND s.pc = c.pc AND s.stall_reason = c.stall_reason
  AND s.object_id = c.object_id
LEFT ANTI JOIN executed e
  ON e.kernel_id = c.kernel_id AND e.function_id = c.function_id AND e.pc = c.pc AND e.stall_reason = c.stall_reason
WHERE s.most > 0.02
GROUP BY c.kernel_id, c.function_id, c.pc, c.stall_reason, c.producer_function_id, c.producer_pc
