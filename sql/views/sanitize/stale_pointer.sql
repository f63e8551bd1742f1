-- One launch of Triton that was given a pointer to a tensor whose memory has been freed and given to another.
--
-- The pointer is among the parameters and of none of the launch's argument tensors, nor the start of a tensor in the memory as it is
-- now. Where the new tensor begins at the same address, the old pointer looks like a new one.
CREATE VIEW stale_pointer (
  kernel_id,
  -- The old storage.
  storage_id,
  -- The newest tensor in it.
  tensor_id,
  object,
  type,
  born_at,
  -- Ordinal of the first launch after its free.
  free_ordinal,
  -- The storage that has its memory now.
  other_storage_id,
  -- The newest tensor in it.
  other_tensor_id,
  -- Its label.
  other_object,
  -- Its type and shape, or size.
  other_type,
  -- The line that allocated it.
  other_born_at,
  -- Bytes from the start of that storage to the pointer.
  other_byte_offset,
  -- The function that holds an instruction that accesses the new storage.
  function_id,
  pc,
  -- Its line.
  source_line,
  line,
  op
) AS
WITH given AS (
  SELECT l.kernel_id, l.run_id, l.ordinal, l.op_id, encode(p.bytes, 'hex') AS words
  FROM launch l
  JOIN op o ON o.op_id = l.op_id AND o.kind = 'triton'
  JOIN launch_parameter p ON p.kernel_id = l.kernel_id
), touched AS (
  -- Storages of no argument.
  SELECT g.kernel_id, g.run_id, g.ordinal, g.words, c.storage_id, c.function_id, min(c.pc) AS pc
  FROM given g
  JOIN pc_tensor c ON c.kernel_id = g.kernel_id AND c.evidence = 'observed'
  LEFT JOIN (
    SELECT DISTINCT a.op_id, t.storage_id FROM op_tensor a JOIN tensor t ON t.tensor_id = a.tensor_id
  ) a ON a.op_id = g.op_id AND a.storage_id = c.storage_id
  WHERE c.storage_id IS NOT NULL AND a.op_id IS NULL
  GROUP BY g.kernel_id, g.run_id, g.ordinal, g.words, c.storage_id, c.function_id
), old AS (
  -- The last one that began there.
  SELECT
    t.kernel_id, t.function_id, t.pc, t.words, max(d.storage_id) AS storage_id, s.storage_id AS other_storage_id,
    TRY_CAST(d.address AS BIGINT) AS address, TRY_CAST(d.address - s.address AS BIGINT) AS other_byte_offset
  FROM touched t
  JOIN storage s ON s.storage_id = t.storage_id
  JOIN storage d ON d.run_id = s.run_id AND d.device_id = s.device_id AND d.address > s.address AND d.address < s.address + s.size_bytes
  LEFT JOIN tensor v ON v.storage_id = s.storage_id AND v.address = d.address
  WHERE d.free_ordinal <= t.ordinal AND d.free_ns <= s.alloc_ns AND d.origin <> 'tensor' AND v.tensor_id IS NULL
  GROUP BY t.kernel_id, t.function_id, t.pc, t.words, s.storage_id, s.address, d.address
), newest AS (
  SELECT storage_id, max(tensor_id) AS tensor_id FROM tensor GROUP BY storage_id
)
SELECT
  o.kernel_id, o.storage_id, n.tensor_id, c.label, c.type, c.born_at, f.free_ordinal, o.other_storage_id, m.tensor_id, d.label, d.type,
  d.born_at, o.other_byte_offset, o.function_id, o.pc, regexp_replace(i.file, '^.*/', '') || ':' || CAST(i.line AS VARCHAR),
  line_label(l.line, l.forward_line), l.op
FROM old o
JOIN launch_context l ON l.kernel_id = o.kernel_id
JOIN storage f ON f.storage_id = o.storage_id
LEFT JOIN instruction i ON i.function_id = o.function_id AND i.pc = o.pc
LEFT JOIN newest n ON n.storage_id = o.storage_id
LEFT JOIN newest m ON m.storage_id = o.other_storage_id
LEFT JOIN target_context c ON c.target = CASE WHEN n.tensor_id IS NULL THEN 'storage' ELSE 'tensor' END
  AND c.object_id = coalesce(n.tensor_id, o.storage_id)
LEFT JOIN target_context d ON d.target = CASE WHEN m.tensor_id IS NULL THEN 'storage' ELSE 'tensor' END
  AND d.object_id = coalesce(m.tensor_id, o.other_storage_id)
-- The pointer's bytes, lowest first, in a word of the parameters.
WHERE strpos(o.words, lpad(to_hex(o.address & 255), 2, '0') || lpad(to_hex((o.address >> 8) & 255), 2, '0')
  || lpad(to_hex((o.address >> 16) & 255), 2, '0') || lpad(to_hex((o.address >> 24) & 255), 2, '0')
  || lpad(to_hex((o.address >> 32) & 255), 2, '0') || lpad(to_hex((o.address >> 40) & 255), 2, '0') || '0000') % 16 = 1
