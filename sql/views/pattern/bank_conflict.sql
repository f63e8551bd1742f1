-- Bank conflicts of one instruction of one launch in shared memory.
--
-- 32 banks of 4-byte words serve one word each at a time. A word that several lanes request is read once. With up to 4
-- bytes per lane, a request takes one pass, with 8 bytes one per half warp, with 16 one per quarter: a model of the
-- hardware, whose counters may differ. Copies by tensor maps and other unobserved instructions have no row.
-- Counts are of the rows that the capture holds. Where these are a sample of blocks (`launch_access`), degrees are
-- estimates.
CREATE VIEW bank_conflict (
  kernel_id,
  function_id,
  pc,
  -- Kind of access: read, write, atomic.
  kind,
  -- Bytes that each lane accesses.
  access_bytes,
  request_count,
  -- Lane accesses.
  lane_count,
  -- Wavefronts: over all passes, the maximum of distinct words in one bank.
  wavefronts,
  -- The minimum for these requests.
  passes,
  -- Wavefronts beyond the minimum.
  conflicts,
  -- Wavefronts per pass: 1 without conflicts, 32 if all lanes access one bank.
  degree,
  -- Requests with a conflict.
  conflicting_count,
  -- Maximum of wavefronts of one request.
  most_wavefronts
) AS
SELECT
  kernel_id, function_id, pc, kind, max(access_bytes), count(*), CAST(sum(lane_count) AS BIGINT),
  CAST(sum(wavefronts) AS BIGINT), CAST(sum(passes) AS BIGINT), CAST(sum(bank_conflicts) AS BIGINT),
  CASE WHEN sum(passes) > 0 THEN CAST(sum(wavefronts) AS DOUBLE) / sum(passes) END,
  sum(CASE WHEN bank_conflicts > 0 THEN 1 ELSE 0 END), max(wavefronts)
FROM access_shape
WHERE space = 'shared'
GROUP BY kernel_id, function_id, pc, kind
