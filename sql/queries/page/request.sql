-- One request of an instruction
-- The first of a launch's requests with the most frequent stride, among those to an object. An instruction can access
-- several objects. In a model launch they have other addresses: then the first of all. A warp request has two rows if its
-- lanes are far apart.
WITH own AS (
  SELECT *, address >= $low AND address < $past AS is_its
  FROM memory_access
  WHERE kernel_id = $kernel AND function_id = $function AND pc = $pc
), alike AS (
  SELECT *, count(*) OVER (PARTITION BY is_its, stride_bytes, lane_mask) AS requests
  FROM own
), request AS (
  SELECT first_value(sequence ORDER BY is_its DESC, requests DESC, block, warp, sequence) AS sequence
  FROM alike
)
SELECT
  o.block, o.warp, o.kind, o.access_bytes, o.lane_mask, o.address, o.stride_bytes,
  array_to_string(o.offsets, ' ') AS offsets, o.offset_shift
FROM own o
JOIN request r ON r.sequence = o.sequence
ORDER BY o.address, o.lane_mask
