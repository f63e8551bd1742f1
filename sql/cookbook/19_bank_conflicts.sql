-- Where do warps wait for banks of shared memory?
-- Conflicts are passes beyond the first that a request takes, measured by hardware counters.
-- Capture: training_parts
SELECT
  regexp_replace(regexp_replace(replace(c.kernel, '(anonymous namespace)::', ''), '[<(].*', ''), '^void ', '') AS kernel,
  count(*) AS launches, sum(c.shared_conflicts) AS conflicts,
  round(sum(c.shared_conflicts) / sum(c.instructions), 3) AS conflicts_per_instruction
FROM launch_counters c
WHERE c.shared_conflicts > 0
GROUP BY c.kernel
ORDER BY conflicts DESC, kernel
LIMIT 5
