-- Requests of one instruction of one launch by the number of sectors of device memory that they touched.
--
-- All requests of a launch whose shapes the GPU counted (`access_histogram`). Other counts are of the rows that the capture
-- holds. Where these are a sample of blocks (`launch_access`), parts of them are estimates.
CREATE VIEW sector_histogram (
  kernel_id,
  function_id,
  pc,
  kind,
  -- Sectors of 32 bytes that a request touched: 1 to 32, more if accesses straddle sectors.
  sectors,
  -- Requests with that number.
  request_count
) AS
WITH counted AS (
  SELECT kernel_id, function_id, pc, kind, sectors, count(*) AS requests
  FROM access_shape
  WHERE space IN ('global', 'global_async')
  GROUP BY kernel_id, function_id, pc, kind, sectors
)
SELECT kernel_id, function_id, pc, kind, sectors, requests
FROM counted c
LEFT ANTI JOIN access_histogram h ON h.kernel_id = c.kernel_id
UNION ALL
SELECT kernel_id, function_id, pc, kind, sectors, CAST(sum(request_count) AS BIGINT)
FROM access_histogram
WHERE space IN ('global', 'global_async')
GROUP BY kernel_id, function_id, pc, kind, sectors
