-- How many requests of one instruction of one launch touched how many sectors of device memory.
CREATE VIEW sector_histogram (
  -- The launch.
  kernel_id,
  -- The function that holds the instruction.
  function_id,
  -- The instruction.
  pc,
  -- What it does: read, write, atomic, prefetch.
  kind,
  -- Sectors of 32 bytes that a request touched: 1 to 32, more where accesses straddle sectors.
  sectors,
  -- Requests that touched so many.
  request_count
) AS
SELECT kernel_id, function_id, pc, kind, sectors, count(*)
FROM access_shape
WHERE space IN ('global', 'global_async')
GROUP BY kernel_id, function_id, pc, kind, sectors
