-- One storage that exactly one launch writes and exactly one other launch reads. One fused kernel would keep its data
-- in registers.
--
-- Based on observed accesses: a kernel with unobserved ones (see `coverage`) may read or write more. Accesses of an
-- earlier launch of the kind, as in `pc_tensor`, count too.
CREATE VIEW handed_over (
  -- The storage.
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
    sum(CASE WHEN kind = 'write' THEN unique_bytes ELSE 0 END) AS written,
    sum(CASE WHEN kind = 'read' THEN unique_bytes ELSE 0 END) AS read,
    sum(CASE WHEN kind IN ('write', 'read') THEN 0 ELSE 1 END) AS others
  FROM pc_tensor_part
  WHERE storage_id IS NOT NULL
  GROUP BY kernel_id, storage_id
), used AS (
  SELECT
    storage_id,
    count(*) AS launches, sum(others) AS others,
    sum(CASE WHEN written > 0 THEN 1 ELSE 0 END) AS writers, sum(CASE WHEN read > 0 THEN 1 ELSE 0 END) AS readers,
    max(CASE WHEN written > 0 THEN kernel_id END) AS producer, max(CASE WHEN read > 0 THEN kernel_id END) AS consumer,
    CAST(sum(written) AS BIGINT) AS written, CAST(sum(read) AS BIGINT) AS read
  FROM touched
  GROUP BY storage_id
)
SELECT
  u.storage_id, s.size_bytes, u.producer, u.consumer, CAST(c.ordinal AS BIGINT) - CAST(p.ordinal AS BIGINT), u.written,
  u.read, u.read >= u.written
FROM used u
JOIN storage s ON s.storage_id = u.storage_id
JOIN launch p ON p.kernel_id = u.producer
JOIN launch c ON c.kernel_id = u.consumer
WHERE u.launches = 2 AND u.writers = 1 AND u.readers = 1 AND u.others = 0 AND p.ordinal < c.ordinal
