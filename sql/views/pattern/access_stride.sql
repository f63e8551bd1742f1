-- One instruction of one launch: the most frequent stride of its warp requests, from lane to lane.
--
-- Only rows that the capture holds count, as in `access_pattern`.
CREATE VIEW access_stride (
  kernel_id,
  function_id,
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
WITH classed AS (
  SELECT kernel_id, function_id, pc, first_value(class ORDER BY request_count DESC, class) AS class
  FROM access_pattern
  GROUP BY kernel_id, function_id, pc
)
SELECT
  s.kernel_id, s.function_id, s.pc, c.class, s.stride_bytes, s.access_bytes, s.stride_offset,
  s.misaligned_count / CAST(s.request_count AS DOUBLE)
FROM instruction_stride s
LEFT JOIN classed c ON c.kernel_id = s.kernel_id AND c.function_id = s.function_id AND c.pc = s.pc
