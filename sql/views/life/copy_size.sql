-- Copies and fills of one direction and size by one op at one line.
CREATE VIEW copy_size (
  -- copy or fill.
  kind,
  -- host_to_device, device_to_host, device_to_device, other; null for fills.
  direction,
  -- Bytes of each.
  size_bytes,
  -- The op that called them; null outside ops.
  op,
  -- The line of that op; in backward, the line whose gradient it computes.
  line,
  -- How many.
  calls,
  -- Bytes of all together.
  total_bytes,
  -- Ordinal of the first launch after the first.
  first_ordinal,
  -- Ordinal of the first launch after the last.
  last_ordinal
) AS
WITH moved AS (
  SELECT run_id, 'copy' AS kind, CAST(kind AS VARCHAR) AS direction, size_bytes, ordinal, op_id FROM memcpy
  UNION ALL
  SELECT run_id, 'fill', NULL, size_bytes, ordinal, op_id FROM memset
)
SELECT
  m.kind, m.direction, m.size_bytes, o.op, o.source_line,
  count(*), sum(m.size_bytes), min(m.ordinal), max(m.ordinal)
FROM moved m
LEFT JOIN op_context o ON o.op_id = m.op_id
GROUP BY m.kind, m.direction, m.size_bytes, o.op, o.source_line
