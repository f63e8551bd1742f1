-- One launch's part of a number that the program gave to a range, such as `flops` or `bytes`.
--
-- The number is that of the innermost range that has one of this name. Its launches share it by their GPU time, or
-- equally where a time is not known. Launches of the gradient have no part.
CREATE VIEW launch_metric (
  kernel_id,
  -- Name of the number.
  metric,
  -- The range.
  op_id,
  -- The launch's part.
  value,
  -- Unit of the number. Null where the program names none.
  unit,
  -- The launch's GPU time, nanoseconds. See `launch_time`.
  time_ns
) AS
WITH nearest AS (
  SELECT r.kernel_id, m.name, first_value(r.op_id ORDER BY r.distance) AS op_id
  FROM op_metric m
  JOIN range_launch r ON r.op_id = m.op_id
  WHERE NOT r.is_forward
  GROUP BY r.kernel_id, m.name
), timed AS (
  SELECT
    n.kernel_id, n.name, n.op_id, t.time_ns,
    CASE WHEN count(t.time_ns) OVER whole = count(*) OVER whole THEN t.time_ns / nullif(sum(t.time_ns) OVER whole, 0.0) END
      AS part,
    1.0 / count(*) OVER whole AS equal_part
  FROM nearest n
  JOIN launch_time t ON t.kernel_id = n.kernel_id
  WINDOW whole AS (PARTITION BY n.op_id, n.name)
)
SELECT t.kernel_id, t.name, t.op_id, m.value * coalesce(t.part, t.equal_part), m.unit, t.time_ns
FROM timed t
JOIN op_metric m ON m.op_id = t.op_id AND m.name = t.name
