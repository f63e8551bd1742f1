-- Stall reasons of launches
-- One row per launch and stall reason. All rows add up to the samples.
SELECT kernel_id, stall_reason, sum(samples) AS samples
FROM sample
GROUP BY kernel_id, stall_reason
ORDER BY kernel_id, stall_reason
