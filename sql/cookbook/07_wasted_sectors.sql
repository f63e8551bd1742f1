-- Which accesses move more bytes than they use?
-- One row is an instruction over all launches; efficiency is bytes used by bytes moved, 1 where nothing is wasted.
-- Capture: known_truth
WITH instruction_sum AS (
  SELECT
    function_id, pc, kind, class, sum(request_count) AS requests, CAST(sum(sectors) AS DOUBLE) AS moved,
    sum(efficiency * sectors) AS used, sum(excess_sectors) * 32 AS wasted
  FROM access_pattern
  WHERE excess_sectors > 0
  GROUP BY function_id, pc, kind, class
)
SELECT
  f.name AS kernel, '0x' || lpad(to_hex(a.pc), 4, '0') AS place, a.kind, a.class, a.requests,
  round(a.moved / a.requests, 1) AS sectors_per_request, round(a.used / a.moved, 3) AS efficiency,
  a.wasted AS wasted_bytes
FROM instruction_sum a
JOIN function f ON f.function_id = a.function_id
ORDER BY wasted_bytes DESC, kernel, place
LIMIT 8
