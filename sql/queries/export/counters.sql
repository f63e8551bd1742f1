-- Hardware counters
-- One row per launch and counter that has a value.
SELECT kernel_id, metric, unit, value
FROM launch_counter
WHERE value IS NOT NULL
ORDER BY metric, kernel_id
