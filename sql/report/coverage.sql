-- Coverage
-- How much of what ran is known to the numbers below; ! marks what is not whole.
WITH marked AS (
  SELECT *, item LIKE 'lost%' OR item LIKE 'missing%' OR item LIKE '%not observed%' AND count > 0
    OR share < 1 AND item NOT LIKE '%not observed%' AND (
      item LIKE '%recorded%' OR item LIKE '%matched%' OR item LIKE '%observed%' OR item LIKE '%delivered%'
    ) AS is_partial
  FROM coverage
)
SELECT
  CASE WHEN is_partial THEN '! ' ELSE '' END || item AS known,
  CAST(count AS DOUBLE) AS count,
  CAST(total AS DOUBLE) AS "of",
  CAST(share AS DOUBLE) AS share,
  CASE WHEN is_partial THEN detail END AS detail
FROM marked
ORDER BY position, item, detail
