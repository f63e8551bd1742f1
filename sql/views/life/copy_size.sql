-- Memcpys and memsets of one direction and size by one op at one line.
CREATE VIEW copy_size (
  -- copy (memcpy) or fill (memset).
  kind,
  -- host_to_device, device_to_host, device_to_device, other. Null for memsets.
  direction,
  -- Bytes of each.
  size_bytes,
  -- The op that called them. Null outside ops.
  op,
  -- The line of that op. In backward, the line whose gradient it computes.
  line,
  -- Count.
  calls,
  -- Total bytes.
  total_bytes,
  -- Ordinal of the first launch after the first one.
  first_ordinal,
  -- Ordinal of the first launch after the last one.
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
