-- Findings by cause
-- The first finding of each kind, with the number of its kind in `alike`. saving_share: an upper bound of all of the
-- kind together, in parts of all samples. number: the rank among all findings, as `stallmap why` takes it. Steps come before
-- set-up, and a GPU that waits for its host comes first: no kernel makes up for it. found: findings in total.
WITH placed AS (
  SELECT
    *, count(*) OVER () AS found,
    row_number() OVER (
      ORDER BY found_by = 'finding_wrong_access' DESC, is_in_steps DESC, finding = 'cpu_bound' DESC, saving_samples DESC, samples DESC, time_ns DESC NULLS LAST, finding, subject
    ) AS number
  FROM finding
), grouped AS (
  SELECT
    *, count(*) OVER (PARTITION BY finding) AS alike,
    -- Findings can share samples: together they save no more than all.
    CASE WHEN sum(saving_share) OVER (PARTITION BY finding) > 1.0 THEN 1.0
      ELSE sum(saving_share) OVER (PARTITION BY finding) END AS group_share,
    row_number() OVER (PARTITION BY finding ORDER BY number) AS turn
  FROM placed
)
SELECT
  number, finding, subject, fact, advice, sentence, g.line, t.text, op, kernel, tensor_id, group_share AS saving_share,
  share, time_ns, found, alike, found_by, query
FROM grouped g
LEFT JOIN line_text t ON t.line = replace(g.line, ' (grad)', '')
WHERE turn = 1
ORDER BY found_by = 'finding_wrong_access' DESC, is_in_steps DESC, finding = 'cpu_bound' DESC, group_share DESC NULLS LAST, number
LIMIT $top
