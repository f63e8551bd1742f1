-- One storage with two uses: one launch writes it, and a later one reads it. One fused kernel would keep its data in
-- registers.
--
-- No memcpy or memset uses it, and no launch that was not observed completely can have used it, as in `object_use`.
CREATE VIEW handed_over (
  storage_id,
  -- Its bytes.
  size_bytes,
  -- The launch that writes it.
  producer_kernel_id,
  -- The launch that reads it.
  consumer_kernel_id,
  -- Launches from producer to consumer: 1 if the consumer follows directly.
  distance,
  -- Bytes written, distinct in each request.
  written_bytes,
  -- Bytes read, distinct in each request.
  read_bytes,
  -- True if at least as many bytes are read as written: the complete result is handed over.
  is_whole
) AS
WITH touched AS (
  SELECT
    kernel_id, storage_id,
    CAST(sum(CASE WHEN kind = 'write' THEN unique_bytes ELSE 0 END) AS BIGINT) AS written,
    CAST(sum(CASE WHEN kind = 'read' THEN unique_bytes ELSE 0 END) AS BIGINT) AS read
  FROM pc_tensor_part
  WHERE storage_id IS NOT NULL
  GROUP BY kernel_id, storage_id
), used AS (
  SELECT
    storage_id, count(*) AS uses,
    max(CASE WHEN direction = 'write' THEN kernel_id END) AS producer,
    max(CASE WHEN direction = 'read' THEN kernel_id END) AS consumer
  FROM object_use
  WHERE storage_id IS NOT NULL
  GROUP BY storage_id
), blind AS (
  SELECT run_id, max(ordinal) AS ordinal, bool_and(is_listed) AS is_listed FROM unobserved_before GROUP BY run_id
)
SELECT
  u.storage_id, s.size_bytes, u.producer, u.consumer, CAST(c.ordinal AS BIGINT) - CAST(p.ordinal AS BIGINT), w.written,
  r.read, r.read >= w.written
FROM used u
JOIN storage s ON s.storage_id = u.storage_id
JOIN launch p ON p.kernel_id = u.producer
JOIN launch c ON c.kernel_id = u.consumer
JOIN touched w ON w.kernel_id = u.producer AND w.storage_id = u.storage_id
JOIN touched r ON r.kernel_id = u.consumer AND r.storage_id = u.storage_id
JOIN blind e ON e.run_id = s.run_id AND e.is_listed
JOIN unobserved_before a ON a.run_id = s.run_id AND a.ordinal = s.alloc_ordinal
JOIN unobserved_before b ON b.run_id = s.run_id AND b.ordinal = coalesce(s.free_ordinal, e.ordinal)
  AND b.blind_count = a.blind_count
WHERE u.uses = 2 AND p.ordinal < c.ordinal
