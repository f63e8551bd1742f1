-- Lost: data that is not in the capture, nor in the numbers below
-- Dropped, excluded or unmatched data, by reason. detail is one example.
WITH named AS (
  SELECT
    CASE WHEN p.run_id IS NULL THEN CAST(r.instrument AS VARCHAR)
      ELSE 'replays under ' || CAST(r.instrument AS VARCHAR) END AS instrument,
    l.kind,
    CASE WHEN l.reason = 'taken outside the program''s kernels' AND b.kernels > 0
      THEN l.reason || ', or in bodies of conditional graph nodes: these have no samples' ELSE l.reason END AS reason,
    l.lost_count, l.detail
  FROM loss l
  LEFT JOIN run r ON r.run_id = l.run_id
  LEFT JOIN (SELECT DISTINCT run_id FROM replay) p ON p.run_id = l.run_id
  -- Kernels in bodies have records with the node and without a call.
  CROSS JOIN (
    SELECT count(*) AS kernels
    FROM gpu_activity a
    JOIN launch k ON k.kernel_id = a.kernel_id
    WHERE a.correlation_id = 0 AND k.graph_id IS NOT NULL
  ) b
  UNION ALL
  SELECT r.instrument, 'match', coalesce(u.match_reason, 'no reason given'), 1, f.demangled_name
  FROM launch_run u
  LEFT JOIN run r ON r.run_id = u.run_id
  LEFT JOIN launch l ON l.kernel_id = u.kernel_id
  LEFT JOIN function f ON f.function_id = l.function_id
  WHERE u.matched = 'unmatched'
  UNION ALL
  SELECT NULL, 'access', 'memory instructions without a patch point', c.unpatched_count, f.demangled_name
  FROM function_coverage c
  JOIN function f ON f.function_id = c.function_id
  WHERE c.unpatched_count > 0 AND f.function_id IN (SELECT function_id FROM launch)
    AND EXISTS (SELECT 1 FROM run WHERE instrument = 'accesses')
  UNION ALL
  SELECT r.instrument, 'run', 'ended by signal ' || CAST(r.exit_signal AS VARCHAR), 1, r.program
  FROM run r
  WHERE r.exit_signal IS NOT NULL
  UNION ALL
  SELECT wanted.instrument, 'run', 'not recorded: ' || wanted.without, 1, NULL
  FROM (VALUES ('accesses', 'stalls cannot be attributed to tensors'), ('pc_samples', 'there are no stalls')) AS
    wanted(instrument, without)
  -- An import says itself what its file lacks.
  WHERE wanted.instrument NOT IN (SELECT instrument FROM run)
    AND NOT EXISTS (SELECT 1 FROM run_option WHERE name = 'imported.tool')
)
SELECT sum(lost_count) AS count, kind, reason, instrument, min(detail) AS detail
FROM named
GROUP BY kind, reason, instrument
ORDER BY kind, sum(lost_count) DESC, reason, instrument
