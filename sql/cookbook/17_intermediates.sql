-- Which intermediate results does one kernel write and only one other read?
-- A fused kernel would keep them in registers: bytes are what it neither writes nor reads. Tensors of the model, which
-- outlive the step, are left out.
-- Capture: transformer_step
WITH touched AS (
  SELECT storage_id, kernel_id, max(CASE WHEN kind = 'read' THEN 1 ELSE 0 END) AS has_read,
    max(CASE WHEN kind = 'write' THEN 1 ELSE 0 END) AS has_written
  FROM pc_tensor
  WHERE storage_id IS NOT NULL
  GROUP BY storage_id, kernel_id
), used AS (
  SELECT
    storage_id, sum(has_written) AS writers, sum(has_read) AS readers,
    min(CASE WHEN has_written = 1 THEN kernel_id END) AS writer, max(CASE WHEN has_read = 1 THEN kernel_id END) AS reader
  FROM touched
  GROUP BY storage_id
)
SELECT
  w.op AS written_by, r.op AS read_by, count(*) AS storages, 2 * sum(s.size_bytes) AS saved_bytes
FROM used u
JOIN storage s ON s.storage_id = u.storage_id
JOIN launch_context w ON w.kernel_id = u.writer
JOIN launch_context r ON r.kernel_id = u.reader
WHERE u.writers = 1 AND u.readers = 1 AND u.writer <> u.reader AND s.free_ordinal IS NOT NULL
GROUP BY w.op, r.op
ORDER BY saved_bytes DESC, written_by, read_by
LIMIT 8
