-- Losses
-- One row per kind and reason: things that the capture lacks.
SELECT CAST(kind AS VARCHAR) AS kind, reason, sum(lost_count) AS lost_count
FROM loss
GROUP BY kind, reason
ORDER BY kind, reason
