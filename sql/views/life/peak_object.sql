-- One object that is allocated at the peak of its device, with what it holds and who allocated it.
--
-- The sizes of a device add up to `memory_peak.live_bytes`.
CREATE VIEW peak_object (
  -- The object, as in `memory_object`.
  object_id,
  run_id,
  device_id,
  -- The rank of its process. Null outside distributed programs.
  rank,
  -- Its category, as in `object_category`.
  category,
  -- The evidence for it.
  category_source,
  -- Its name, as in `object_life`.
  object,
  -- Element type and shape.
  type,
  -- Dotted path of the module whose op allocated it, or whose parameter it is.
  module_path,
  -- The op that allocated it.
  op,
  -- The line that allocated it. In backward, the line whose gradient it computes, with (grad).
  line,
  -- All frames of that line's stack, innermost first, one per line.
  stack,
  -- Bytes, as the allocator gave them.
  size_bytes,
  -- Bytes that the program asked for. Null if the source does not have them.
  requested_bytes,
  -- Its first ordinal, as in `object_life`.
  alloc_ordinal
) AS
WITH named AS (
  SELECT storage_id, first_value(name ORDER BY tensor_id) AS name
  FROM tensor
  WHERE name IS NOT NULL AND role IN ('parameter', 'gradient', 'buffer')
  GROUP BY storage_id
)
SELECT
  m.object_id, m.run_id, m.device_id, r.rank, c.category, c.category_source, l.object, l.type,
  coalesce(x.module_path, nullif(regexp_replace(n.name, '[.]?[^.]*$', ''), '')),
  x.op, coalesce(x.source_line, l.born_at), k.stack, m.size_bytes, q.requested_bytes, m.alloc_ordinal
FROM memory_object m
JOIN run r ON r.run_id = m.run_id
LEFT JOIN object_category c ON c.object_id = m.object_id AND c.run_id = m.run_id
JOIN object_life l ON l.object_id = m.object_id AND l.run_id = m.run_id
LEFT JOIN op_context x ON x.op_id = m.op_id
LEFT JOIN op o ON o.op_id = m.op_id
LEFT JOIN python_stack k ON k.pystates_hash = o.pystates_hash
LEFT JOIN named n ON n.storage_id = m.storage_id
LEFT JOIN storage_request q ON q.storage_id = m.storage_id
WHERE l.is_live_at_peak
