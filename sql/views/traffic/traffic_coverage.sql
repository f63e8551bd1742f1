-- Coverage of the model of traffic, as rows of `coverage`. Captures without measured times have no rows.
CREATE VIEW traffic_coverage (
  position,
  -- Samples that traffic divides in place of waits, as in `traffic_charge`. Launches whose traffic, by the model, takes
  -- more than their time, as in `launch_limit`.
  item,
  count,
  -- Samples of all memory stalls, launches with traffic that are longer than 5 us.
  total,
  -- Null: a part is expected.
  is_whole,
  -- Explanation.
  detail
) AS
WITH divided AS (
  -- Rows of traffic have no samples that wait.
  SELECT
    sum(CASE WHEN is_memory AND waited_samples = 0.0 THEN samples ELSE 0.0 END) AS samples,
    sum(CASE WHEN is_memory THEN samples ELSE 0.0 END) AS memory_samples
  FROM traffic_charge
), limited AS (
  -- Rates are nine tenths of the peak. Shorter launches are measured too coarsely.
  SELECT
    CAST(sum(CASE WHEN greatest(device_share, l2_share, request_share, l1_share, atomic_share) > 1.1 THEN 1 ELSE 0 END)
      AS DOUBLE) AS launches,
    CAST(count(*) AS DOUBLE) AS all_launches
  FROM launch_limit
  WHERE time_ns > 5000.0
)
SELECT
  50, 'samples of memory stalls divided by traffic', samples, memory_samples, CAST(NULL AS BOOLEAN) AS is_whole,
  CAST(NULL AS VARCHAR) AS detail
FROM divided
WHERE samples > 0.0
UNION ALL
SELECT
  50, 'launches with more traffic than time', launches, all_launches, CAST(NULL AS BOOLEAN) AS is_whole,
  'an error of the model: launch_limit has the shares'
FROM limited
WHERE launches > 0.0
