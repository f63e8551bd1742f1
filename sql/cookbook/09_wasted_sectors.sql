-- Which accesses move more bytes than they use?
-- One row is an instruction over all launches. A request is one access of a warp. ideal is the fewest 32-byte sectors
-- that hold the requested bytes. efficiency is bytes used divided by bytes moved: 1 if nothing is wasted.
-- Capture: known_truth
SELECT
  n.short_kernel AS kernel, '0x' || lpad(to_hex(p.pc), 4, '0') AS place, p.kind, p.class,
  sum(p.request_count) AS requests,
  round(CAST(sum(p.sectors) AS DOUBLE) / sum(p.request_count), 1) AS sectors_per_request,
  round(CAST(sum(p.ideal_sectors) AS DOUBLE) / sum(p.request_count), 1) AS ideal,
  round(sum(p.unique_bytes) / (32.0 * sum(p.sectors)), 3) AS efficiency,
  32 * sum(p.excess_sectors) AS wasted_bytes
FROM request_pattern p
JOIN kernel_name n ON n.function_id = p.function_id
WHERE p.space IN ('global', 'global_async', 'local') AND p.excess_sectors > 0
GROUP BY n.short_kernel, p.function_id, p.pc, p.kind, p.class
ORDER BY wasted_bytes DESC, kernel, place
LIMIT 5
