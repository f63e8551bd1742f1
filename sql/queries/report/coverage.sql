-- Coverage
-- Recorded part of the run. `!` marks incomplete items.
SELECT
  CASE WHEN NOT is_whole THEN '! ' ELSE '' END || item AS known,
  CAST(count AS DOUBLE) AS count,
  CAST(total AS DOUBLE) AS "of",
  CAST(share AS DOUBLE) AS share,
  CASE WHEN NOT is_whole OR position = 51 THEN detail END AS detail
FROM coverage
ORDER BY position, item, detail
