-- Findings
-- Inefficiencies and recommended changes (→). saving: upper bound. share: current cost. Both in % of all samples. Two
-- findings can share samples, so savings do not add up. The view `finding` has all, each with a query for its evidence.
WITH named AS (
  SELECT kernel, max(function_id) AS function_id FROM kernel_name GROUP BY kernel HAVING count(*) = 1
), placed AS (
  SELECT *, least($top + 1, row_number() OVER (
    ORDER BY finding_rank
  )) AS place
  FROM finding
)
SELECT
  CASE WHEN place <= $top THEN max(saving_share) END AS saving_share,
  CASE WHEN place <= $top THEN max(share) END AS share,
  CASE WHEN place <= $top THEN max(time_ns) END AS time_ns,
  CASE
    WHEN place <= $top THEN max(finding)
    ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')'
  END AS finding,
  CASE
    WHEN place <= $top THEN max(sentence)
    WHEN coalesce(max(saving_share), 0.0) <= 0.0 THEN 'Saving unknown.'
    ELSE 'Each saves up to ' || CAST(CAST(100 * coalesce(max(saving_share), 0.0) AS DECIMAL(9, 1)) AS VARCHAR)
      || ' % of all samples.'
  END AS sentence,
  CASE WHEN place <= $top THEN max(advice) END AS advice,
  -- For programs, and for the page's links. The text report omits them.
  CASE WHEN place <= $top THEN max(line) END AS line,
  CASE WHEN place <= $top THEN max(n.function_id) END AS function_id,
  CASE WHEN place <= $top THEN max(t.family_id) END AS tensor_id
FROM placed p
LEFT JOIN target_context t ON t.target = 'tensor' AND t.object_id = p.tensor_id
LEFT JOIN named n ON n.kernel = p.kernel
GROUP BY place
ORDER BY place
