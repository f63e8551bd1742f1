-- One copy within the memory of a device whose source and destination lie differently to 16 bytes: no vector access fits both.
--
-- Its result is right, and it is slower than it could be. Rows of copies in several dimensions may lie differently.
CREATE VIEW misaligned_copy (
  run_id,
  -- Ordinal of the first launch after it.
  ordinal,
  -- Time of the call, nanoseconds since the Unix epoch.
  begin_ns,
  -- Source address.
  source,
  -- Destination address.
  destination,
  -- Bytes that it copies.
  size_bytes,
  -- Bytes of the widest access that fits both ends: 1, 2, 4 or 8.
  common_bytes,
  -- The innermost user line around the call.
  line,
  -- The op around the call.
  op
) AS
WITH copied AS (
  SELECT *, (source - destination) % 16 AS distance
  FROM copy_context
  WHERE kind = 'device_to_device' AND size_bytes >= 16
)
SELECT
  run_id, ordinal, begin_ns, source, destination, size_bytes,
  CASE WHEN distance % 8 = 0 THEN 8 WHEN distance % 4 = 0 THEN 4 WHEN distance % 2 = 0 THEN 2 ELSE 1 END, line, op
FROM copied
WHERE distance <> 0
