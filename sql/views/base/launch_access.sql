-- One launch of the program and the source of its accesses.
--
-- `pc_tensor` and its shares are exact for counts and rows. Views over single requests, such as `request_pattern`, have
-- the rows that the capture holds: a sample of blocks where `is_sampled`, so their ratios are estimates. Views that need
-- every request have nulls there.
CREATE VIEW launch_access (
  kernel_id,
  -- counts (every request counted on the GPU, in `access_summary`), model launch (those of an earlier launch of its
  -- kind), rows (`memory_access` only), none.
  source,
  -- The launch that has its accesses, as in `launch.accesses_of`. Null where it has its own.
  model_kernel_id,
  -- Warp requests that it made. Null if unknown: for none, and for a model launch.
  request_count,
  -- Warp requests whose rows the capture holds.
  held_request_count,
  -- True if its accesses are known, and rows are missing: those of other blocks than the sampled ones, or all.
  is_sampled
) AS
WITH counted AS (
  SELECT kernel_id, CAST(sum(request_count) AS DOUBLE) - CAST(sum(shared_request_count) AS DOUBLE) AS requests
  FROM access_summary
  GROUP BY kernel_id
), seen AS (
  SELECT
    kernel_id, sum(request_count) AS held, coalesce(sum(lost_request_count), 0) AS lost, bool_or(recorded) AS recorded
  FROM launch_run
  WHERE request_count IS NOT NULL
  GROUP BY kernel_id
), sourced AS (
  SELECT
    l.kernel_id, l.accesses_of,
    CASE
      WHEN c.kernel_id IS NOT NULL THEN 'counts' WHEN l.accesses_of IS NOT NULL THEN 'model launch'
      WHEN s.recorded THEN 'rows' ELSE 'none'
    END AS source,
    c.requests, coalesce(s.held, 0) AS held, coalesce(s.lost, 0) AS lost
  FROM launch l
  LEFT JOIN counted c ON c.kernel_id = l.kernel_id
  LEFT JOIN seen s ON s.kernel_id = l.kernel_id
)
SELECT
  kernel_id, source, CASE WHEN source = 'model launch' THEN accesses_of END,
  CASE source WHEN 'counts' THEN CAST(requests AS BIGINT) WHEN 'rows' THEN CAST(held + lost AS BIGINT) END,
  CAST(held AS BIGINT),
  CASE source WHEN 'counts' THEN held < requests WHEN 'model launch' THEN true ELSE false END
FROM sourced
