-- One instruction of one launch: the most frequent stride of its warp requests, from lane to lane.
--
-- Only rows that the capture holds count, as in `access_pattern`.
CREATE VIEW access_stride (
  -- The launch.
  kernel_id,
  -- The function that holds the instruction.
  function_id,
  -- The instruction.
  pc,
  -- The most frequent class of its requests, as in `access_pattern`.
  class,
  -- The most frequent byte distance from lane to lane. Null if lanes are irregular.
  stride_bytes,
  -- Bytes that a lane accesses by this stride.
  access_bytes,
  -- The most frequent offset of its addresses in the stride. Null without a stride, or if it is 0.
  stride_offset,
  -- Part of its requests that have unit stride but do not begin on a sector of 32 bytes.
  misaligned_share
) AS
WITH strided AS (
  SELECT
    kernel_id, function_id, pc, abs(stride_bytes) AS stride_bytes, access_bytes,
    address % nullif(CAST(abs(stride_bytes) AS BIGINT UNSIGNED), 0) AS stride_offset,
    count(*) AS requests,
    sum(CASE WHEN abs(stride_bytes) = access_bytes AND address % 32 <> 0 THEN 1 ELSE 0 END) AS misaligned
  FROM memory_access
  GROUP BY kernel_id, function_id, pc, abs(stride_bytes), access_bytes,
    address % nullif(CAST(abs(stride_bytes) AS BIGINT UNSIGNED), 0)
), classed AS (
  SELECT kernel_id, function_id, pc, first_value(class ORDER BY request_count DESC, class) AS class
  FROM access_pattern
  GROUP BY kernel_id, function_id, pc
)
SELECT
  s.kernel_id, s.function_id, s.pc, max(c.class),
  first_value(stride_bytes ORDER BY requests DESC, stride_bytes, stride_offset),
  first_value(access_bytes ORDER BY requests DESC, stride_bytes, stride_offset),
  CAST(first_value(stride_offset ORDER BY requests DESC, stride_bytes, stride_offset) AS BIGINT UNSIGNED),
  sum(misaligned) / CAST(sum(requests) AS DOUBLE)
FROM strided s
LEFT JOIN classed c ON c.kernel_id = s.kernel_id AND c.function_id = s.function_id AND c.pc = s.pc
GROUP BY s.kernel_id, s.function_id, s.pc
