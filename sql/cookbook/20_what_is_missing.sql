-- What does this capture not know, and do its numbers add up?
-- Facts of the coverage that are not whole, as the first section of every report has them; then the launches whose
-- charges and remainders are not the samples taken: 0 in a sound capture.
-- Capture: transformer_step
SELECT item, count, total, round(100.0 * share, 1) AS percent, detail
FROM (
  SELECT position, item, count, total, share, detail FROM coverage WHERE NOT is_whole
  UNION ALL
  SELECT 1000, 'launches whose charges are not their samples', count(DISTINCT kernel_id), NULL, NULL, NULL
  FROM conservation_violation
)
ORDER BY position, item, detail
