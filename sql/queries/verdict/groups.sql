-- Findings by cause
-- The first finding of each kind in some phases of the program, with the number of its kind in `alike`. Of several findings of one cause, only the first
-- counts. saving_share: an upper bound of all of the kind together, in parts of all samples. saving_low_ns, saving_high_ns:
-- nanoseconds per step, of all together. number: the rank among all findings, as `stallmap why` takes it. found: findings in total.
WITH placed AS (
  SELECT
    *,
    row_number() OVER (ORDER BY finding_rank) AS number
  FROM finding
), chosen AS (
  SELECT *, count(*) OVER () AS found FROM placed WHERE $filter
), grouped AS (
  SELECT
    * EXCEPT (saving_low_ns, saving_high_ns), count(*) OVER (PARTITION BY finding) AS alike,
    -- Devices and ranks wait at the same time.
    CASE WHEN finding IN ('cpu_bound', 'exposed_copy') THEN max(saving_low_ns) OVER (PARTITION BY finding)
      ELSE sum(saving_low_ns) OVER (PARTITION BY finding) END AS saving_low_ns,
    CASE WHEN finding IN ('cpu_bound', 'exposed_copy') THEN max(saving_high_ns) OVER (PARTITION BY finding)
      ELSE sum(saving_high_ns) OVER (PARTITION BY finding) END AS saving_high_ns,
    -- Findings can share samples: together they save no more than all.
    CASE WHEN sum(saving_share) OVER (PARTITION BY finding) > 1.0 THEN 1.0
      ELSE sum(saving_share) OVER (PARTITION BY finding) END AS group_share,
    row_number() OVER (PARTITION BY finding ORDER BY number) AS turn
  FROM chosen
  WHERE cause_rank = 1
)
SELECT
  number, finding, subject, fact, advice, sentence, g.line, t.text, op, kernel, tensor_id, group_share AS saving_share,
  saving_low_ns, saving_high_ns, fix_ns, pays_from, also, share, time_ns, found, alike, found_by, query
FROM grouped g
LEFT JOIN line_text t ON t.line = replace(g.line, ' (grad)', '')
WHERE turn = 1
ORDER BY found_by = 'finding_wrong_access' DESC, is_in_steps DESC, finding IN ('cpu_bound', 'exposed_copy') DESC, coalesce(saving_low_ns < 0.0, false),
  saving_low_ns + saving_high_ns DESC NULLS LAST, group_share DESC NULLS LAST, number
LIMIT $top
