-- Coverage for agents
-- One row per item: the recorded part of the run. Incomplete items have the reason.
SELECT item, count, total, share, is_whole, CASE WHEN NOT is_whole THEN detail END AS detail
FROM coverage
ORDER BY position, item, detail
