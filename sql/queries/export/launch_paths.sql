-- Times of launches
-- One row per launch with a time, for captures without samples. It has no stall reason and no object.
SELECT
  kernel_id, frames, ops, kernel, CAST(NULL AS VARCHAR) AS stall_reason, CAST(NULL AS VARCHAR) AS object,
  time_ns AS samples
FROM call_path_cost
WHERE time_ns > 0.0
ORDER BY kernel_id
