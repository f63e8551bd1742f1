-- Findings
-- Inefficiencies and recommended changes (→). saving: upper bound. share: current cost. Both in % of all samples. Two
-- findings can share samples, so savings do not add up.
WITH placed AS (
  SELECT *, least($top + 1, row_number() OVER (
    ORDER BY found_by = 'finding_wrong_access' DESC, $sort DESC NULLS LAST, finding_rank
  )) AS place
  FROM finding
)
SELECT
  CASE WHEN place <= $top THEN max(saving_share) END AS saving_share,
  CASE WHEN place <= $top THEN max(share) END AS share,
  CASE WHEN place <= $top THEN max(saving_samples) END AS saving_samples,
  CASE WHEN place <= $top THEN max(saving_low_ns) END AS saving_low_ns,
  CASE WHEN place <= $top THEN max(saving_high_ns) END AS saving_high_ns,
  CASE WHEN place <= $top THEN max(samples) END AS samples,
  CASE WHEN place <= $top THEN max(time_ns) END AS time_ns,
  CASE
    WHEN place <= $top THEN max(finding)
    ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')'
  END AS finding,
  CASE WHEN place <= $top THEN max(subject) END AS subject,
  CASE
    WHEN place <= $top THEN max(sentence)
    WHEN coalesce(max(saving_share), 0.0) <= 0.0 THEN 'Saving unknown.'
    ELSE 'Each saves up to ' || CAST(CAST(100 * coalesce(max(saving_share), 0.0) AS DECIMAL(9, 1)) AS VARCHAR)
      || ' % of all samples.'
  END AS sentence,
  CASE WHEN place <= $top THEN max(advice) END AS advice,
  CASE WHEN place <= $top THEN max(kernel) END AS kernel,
  CASE WHEN place <= $top THEN max(line) END AS line,
  CASE WHEN place <= $top THEN max(op) END AS op,
  CASE WHEN place <= $top THEN max(tensor_id) END AS tensor_id,
  CASE WHEN place <= $top THEN max(found_by) END AS found_by,
  CASE WHEN place <= $top THEN max(query) END AS query
FROM placed
GROUP BY place
ORDER BY place
