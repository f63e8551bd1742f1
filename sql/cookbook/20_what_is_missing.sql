-- Which data does this capture lack, and do its numbers add up?
-- Incomplete items of the coverage, as in the first section of every report. Then launches whose attributed and
-- unattributed samples do not add up to their samples: 0 in a sound capture.
-- Capture: transformer_step
SELECT item, count, total, round(100.0 * share, 1) AS percent, detail
FROM (
  SELECT position, item, count, total, share, detail FROM coverage WHERE NOT is_whole
  UNION ALL
  SELECT 1000, 'launches whose attribution does not add up', count(DISTINCT kernel_id), NULL, NULL, NULL
  FROM conservation_violation
)
ORDER BY position, item, detail
