-- Findings
-- The first findings by the upper bound of their saving, in parts of all samples. A saving of 0 is not known. Steps
-- come before set-up, and a GPU that waits for its host comes first: no kernel makes up for it. text: the line's, as the program ran it. found: findings in
-- total. alike: findings in the row.
WITH placed AS (
  SELECT
    *, count(*) OVER () AS found,
    row_number() OVER (
      ORDER BY found_by = 'finding_wrong_access' DESC, is_in_steps DESC, finding = 'cpu_bound' DESC, saving_samples DESC, samples DESC, time_ns DESC NULLS LAST, finding, subject
    ) AS number
  FROM finding
)
SELECT
  number, finding, subject, fact, advice, sentence, p.line, t.text, op, kernel, tensor_id, saving_share, share, time_ns,
  found, 1 AS alike, found_by, query
FROM placed p
LEFT JOIN line_text t ON t.line = replace(p.line, ' (grad)', '')
WHERE number <= $top
ORDER BY number
