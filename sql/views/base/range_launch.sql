-- One launch inside one range, at any depth.
--
-- A range is a region of `op`: named by NVTX, by PyTorch's profiler or by `stallmap.region`, or imported. It encloses
-- launches by the order of calls of a thread. A launch in backward whose thread has no range is in those of the forward
-- op whose gradient it computes.
CREATE VIEW range_launch (
  kernel_id,
  -- The range.
  op_id,
  -- Ranges between the launch and this one: 0 for the innermost.
  distance,
  -- True if the range is that of the forward op.
  is_forward
) AS
WITH RECURSIVE inner_op AS (
  SELECT op_id FROM launch WHERE op_id IS NOT NULL
  UNION
  SELECT o.forward_op_id FROM launch l JOIN op o ON o.op_id = l.op_id WHERE o.forward_op_id IS NOT NULL
), above AS (
  SELECT o.op_id AS inner_op_id, o.op_id, o.parent_op_id, o.kind, 0 AS height
  FROM inner_op i
  JOIN op o ON o.op_id = i.op_id
  UNION ALL
  -- A capture whose ops enclose each other in a cycle terminates, too.
  SELECT a.inner_op_id, o.op_id, o.parent_op_id, o.kind, a.height + 1
  FROM above a
  JOIN op o ON o.op_id = a.parent_op_id
  WHERE a.height < 255
), placed AS (
  SELECT inner_op_id, op_id, row_number() OVER (PARTITION BY inner_op_id ORDER BY height) - 1 AS distance
  FROM above
  WHERE kind = 'region'
), ranged AS (
  SELECT DISTINCT inner_op_id FROM placed
)
SELECT l.kernel_id, p.op_id, p.distance, false
FROM launch l
JOIN placed p ON p.inner_op_id = l.op_id
UNION ALL
SELECT l.kernel_id, p.op_id, p.distance, true
FROM launch l
JOIN op o ON o.op_id = l.op_id
JOIN placed p ON p.inner_op_id = o.forward_op_id
LEFT JOIN ranged r ON r.inner_op_id = l.op_id
WHERE r.inner_op_id IS NULL
