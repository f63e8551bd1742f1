-- Findings
-- The first findings by `finding_rank`. Savings are nanoseconds per step, those of older captures parts of all samples. A
-- saving of 0 is not known. text: the line's, as the program ran it. found: findings in
-- total. alike: findings in the row.
WITH placed AS (
  SELECT
    *, count(*) OVER () AS found,
    row_number() OVER (ORDER BY finding_rank) AS number
  FROM finding
)
SELECT
  number, finding, subject, fact, advice, sentence, p.line, t.text, op, kernel, tensor_id, saving_share, saving_low_ns,
  saving_high_ns, fix_ns, pays_from, also, share, time_ns, found, 1 AS alike, found_by, query
FROM placed p
LEFT JOIN line_text t ON t.line = replace(p.line, ' (grad)', '')
WHERE number <= $top
ORDER BY number
