-- Samples of memory stalls that traffic divides in place of waits: one row, or none without such samples.
CREATE VIEW traffic_coverage (
  -- Samples that are attributed by traffic, as in `traffic_charge`.
  samples,
  -- Samples of all memory stalls.
  memory_samples
) AS
SELECT divided, memory
FROM (
  -- Rows of traffic have no samples that wait.
  SELECT
    sum(CASE WHEN is_memory AND waited_samples = 0.0 THEN samples ELSE 0.0 END) AS divided,
    sum(CASE WHEN is_memory THEN samples ELSE 0.0 END) AS memory
  FROM traffic_charge
)
WHERE divided > 0.0
