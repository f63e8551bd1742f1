-- One copy into shared memory of one launch that warps wait for: the part that comes from device memory.
--
-- No instrument counts the copies of a launch, so the part is a bound, from the object that the copy reads. What launches
-- before left in L2 comes from there. Each block makes one copy of a line at least, and copies that are awaited together bring
-- about as much each: what is read again is in L2, too, unless the blocks at work copy more than stays there (`copy_reuse`).
CREATE VIEW copy_level (
  kernel_id,
  -- The function of the copy.
  function_id,
  -- The copy.
  pc,
  -- The storage or, where none is known, the driver allocation that it reads. Of several the first.
  object_id,
  -- Upper bound of the part of its bytes that comes from device memory.
  device_share
) AS
WITH awaited AS (
  SELECT DISTINCT function_id, pc, wait, producer_function_id, producer_pc
  FROM producer_candidate
  WHERE link IN ('mbarrier', 'in order') AND producer_space = 'global'
), partner AS (
  SELECT DISTINCT
    a.producer_function_id AS function_id, a.producer_pc AS pc,
    p.producer_function_id AS partner_function_id, p.producer_pc AS partner_pc
  FROM awaited a
  JOIN awaited p ON p.function_id = a.function_id AND p.pc = a.pc AND p.wait = a.wait
), moved AS (
  -- Bytes of the object, each as often as it comes from device memory.
  SELECT c.*, c.object_bytes * coalesce(u.passes, 1.0) AS bytes
  FROM launch_copy c
  LEFT JOIN copy_reuse u
    ON u.kernel_id = c.kernel_id AND u.is_storage = c.is_storage AND u.object_id = c.object_id
), largest AS (
  SELECT p.function_id, p.pc, c.kernel_id, max(c.bytes) AS bytes
  FROM partner p
  JOIN moved c ON c.function_id = p.partner_function_id AND c.pc = p.partner_pc
  GROUP BY p.function_id, p.pc, c.kernel_id
)
SELECT
  c.kernel_id, c.function_id, c.pc, min(c.object_id),
  sum(c.share * (1.0 - coalesce(r.l2_share, 0.0))
    * least(1.0, c.bytes / (128.0 * l.grid_x * l.grid_y * l.grid_z), c.bytes / g.bytes)) / sum(c.share)
FROM largest g
JOIN moved c ON c.kernel_id = g.kernel_id AND c.function_id = g.function_id AND c.pc = g.pc
JOIN launch l ON l.kernel_id = c.kernel_id
LEFT JOIN object_residency r
  ON r.kernel_id = c.kernel_id AND r.is_storage = c.is_storage AND r.object_id = c.object_id
WHERE c.share > 0
GROUP BY c.kernel_id, c.function_id, c.pc
