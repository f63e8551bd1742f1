-- One copy, with its rows and its line.
CREATE VIEW copy_context (
  run_id,
  -- Ordinal of the first launch after it.
  ordinal,
  -- Time of the call, nanoseconds since the Unix epoch.
  begin_ns,
  -- Its direction.
  kind,
  -- Source address.
  source,
  -- Destination address.
  destination,
  -- Bytes that it copies.
  size_bytes,
  -- Bytes of a row: all of them, if bytes lie behind each other.
  row_bytes,
  -- Rows.
  row_count,
  -- Bytes from row to row in the source.
  source_pitch,
  -- The same in the destination.
  destination_pitch,
  -- The innermost user line around the call.
  line,
  -- The op around the call.
  op
) AS
SELECT
  m.run_id, m.ordinal, m.begin_ns, m.kind, TRY_CAST(m.source AS BIGINT), TRY_CAST(m.destination AS BIGINT), CAST(m.size_bytes AS BIGINT),
  CAST(coalesce(m.row_bytes, m.size_bytes) AS BIGINT),
  CASE WHEN m.row_bytes > 0 THEN CAST(m.size_bytes AS BIGINT) / CAST(m.row_bytes AS BIGINT) ELSE 1 END,
  CAST(coalesce(m.source_pitch, m.size_bytes) AS BIGINT), CAST(coalesce(m.destination_pitch, m.size_bytes) AS BIGINT),
  coalesce(o.source_line, p.line, n.line), o.op
FROM memcpy m
LEFT JOIN op_context o ON o.op_id = m.op_id
LEFT JOIN python_line p ON p.pystates_hash = m.pystates_hash
LEFT JOIN native_line n ON n.native_stack = m.native_stack
