-- What does this capture not know?
-- Facts of the coverage that are not whole; the first section of every report has them all.
-- Capture: transformer_step
SELECT item, count, total, round(100.0 * share, 1) AS percent, detail
FROM coverage
WHERE NOT is_whole
ORDER BY position, item, detail
