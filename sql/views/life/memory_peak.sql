-- The peak of a device's memory in use, and the minimum that would suffice.
--
-- `object_life.is_live_at_peak` marks objects allocated at the peak. Memory is that of `memory_in_use`.
CREATE VIEW memory_peak (
  device_id,
  -- Ordinal of the first launch at the peak, or of the first allocation or free in a run without launches.
  ordinal,
  -- That launch. Null in a run without launches.
  kernel_id,
  -- The op that launched it.
  op,
  -- The line that launched it. In backward, the line whose gradient it computes.
  line,
  -- Bytes in use: the most since the launch before.
  live_bytes,
  -- Objects in use.
  object_count,
  -- Bytes of objects that were used before and will be used again, or are used by this launch.
  needed_bytes,
  -- The maximum over launches of bytes needed: the peak of a program that allocates at first use and frees after the
  -- last.
  least_bytes,
  -- The run: each process has a peak of its own.
  run_id,
  -- The moment, nanoseconds since the Unix epoch. Null if it is the launch itself.
  peak_ns
) AS
WITH peak AS (
  SELECT
    run_id, device_id,
    first_value(ordinal ORDER BY most_bytes DESC, ordinal) AS ordinal,
    first_value(kernel_id ORDER BY most_bytes DESC, ordinal) AS kernel_id,
    first_value(most_objects ORDER BY most_bytes DESC, ordinal) AS object_count,
    first_value(most_ns ORDER BY most_bytes DESC, ordinal) AS peak_ns,
    max(most_bytes) AS live_bytes
  FROM memory_in_use
  GROUP BY run_id, device_id
), life AS (
  SELECT run_id, device_id, size_bytes, first_use_ordinal, last_use_ordinal FROM object_life WHERE use_count > 0
), change AS (
  SELECT run_id, device_id, first_use_ordinal AS ordinal, CAST(size_bytes AS BIGINT) AS size_bytes FROM life
  UNION ALL
  -- After the last launch, no memory is needed.
  SELECT run_id, device_id, last_use_ordinal, -CAST(size_bytes AS BIGINT) FROM life
), summed AS (
  SELECT run_id, device_id, ordinal, sum(size_bytes) AS size_bytes FROM change GROUP BY run_id, device_id, ordinal
), running AS (
  SELECT
    run_id, device_id, ordinal, sum(size_bytes) OVER (PARTITION BY run_id, device_id ORDER BY ordinal) AS needed_bytes
  FROM summed
), needed AS (
  SELECT
    p.run_id, p.device_id,
    first_value(r.needed_bytes ORDER BY r.ordinal <= p.ordinal DESC, r.ordinal DESC) AS needed_bytes,
    max(r.needed_bytes) AS least_bytes
  FROM peak p
  JOIN running r ON r.run_id = p.run_id AND r.device_id = p.device_id
  GROUP BY p.run_id, p.device_id
)
SELECT
  p.device_id, p.ordinal, p.kernel_id, l.op, line_label(l.line, l.forward_line), p.live_bytes,
  p.object_count, coalesce(n.needed_bytes, 0), coalesce(n.least_bytes, 0), p.run_id, p.peak_ns
FROM peak p
LEFT JOIN needed n ON n.run_id = p.run_id AND n.device_id = p.device_id
LEFT JOIN launch_context l ON l.kernel_id = p.kernel_id
