-- Which accesses cause bank conflicts in shared memory?
-- The 32 banks serve one word each at a time. wavefronts are the rounds that the requests take, passes the minimum.
-- degree 1 is free of conflicts, 32 the worst. A padded row or a swizzle avoids conflicts.
-- Capture: access_truth
SELECT
  n.short_kernel AS kernel, '0x' || lpad(to_hex(b.pc), 4, '0') AS place, b.kind, b.access_bytes AS bytes_per_lane,
  sum(b.request_count) AS requests, sum(b.passes) AS passes, sum(b.wavefronts) AS wavefronts,
  round(CAST(sum(b.wavefronts) AS DOUBLE) / sum(b.passes), 1) AS degree
FROM bank_conflict b
JOIN kernel_name n ON n.function_id = b.function_id
WHERE b.conflicts > 0
GROUP BY n.short_kernel, b.function_id, b.pc, b.kind, b.access_bytes
ORDER BY sum(b.conflicts) DESC, kernel, place
LIMIT 5
