-- How one instruction of one launch meets the banks of shared memory.
--
-- 32 banks of words of 4 bytes serve one word each at a time; a word that several lanes ask for is read once. Up to 4 bytes
-- a lane, a request takes one pass, with 8 bytes one for each half of the warp, with 16 one for each quarter: a model of
-- the hardware, which its counters may differ from. Copies by tensor maps and other unobserved instructions have no row.
CREATE VIEW bank_conflict (
  -- The launch.
  kernel_id,
  -- The function that holds the instruction.
  function_id,
  -- The instruction.
  pc,
  -- What it does: read, write, atomic.
  kind,
  -- Bytes that each lane accesses.
  access_bytes,
  -- Warp requests.
  request_count,
  -- Lane accesses.
  lane_count,
  -- Times that the banks were asked: over all passes, the most distinct words in one bank.
  wavefronts,
  -- The least that these requests take.
  passes,
  -- Wavefronts beyond that.
  conflicts,
  -- Wavefronts for each pass: 1 without conflicts, 32 where all lanes meet in one bank.
  degree,
  -- Requests with a conflict.
  conflicting_count,
  -- The most wavefronts of one request.
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
