-- One instruction found waiting for a result, in one kernel, for one reason, with the quality of its producers.
CREATE VIEW scoreboard_stall (
  kernel_function_id,
  -- The function of the stalled instruction: the kernel, or one that it calls.
  function_id,
  -- The stalled instruction.
  pc,
  -- Its stall reason: long_scoreboard or short_scoreboard.
  stall_reason,
  -- Samples, over all launches.
  samples,
  -- Its producers.
  producer_count,
  -- The lowest confidence among them, as in `producer`. none without a producer.
  confidence
) AS
WITH stalled AS (
  SELECT l.function_id AS kernel_function_id, s.function_id, s.pc, s.stall_reason, sum(s.samples) AS samples
  FROM sample s
  JOIN launch l ON l.kernel_id = s.kernel_id
  JOIN stall_reason r ON r.reason = s.stall_reason
  WHERE r.class = 'producer'
  GROUP BY l.function_id, s.function_id, s.pc, s.stall_reason
), found AS (
  SELECT
    function_id, pc, stall_reason, count(producer_pc) AS producer_count,
    max(CASE confidence WHEN 'none' THEN 6 WHEN 'low' THEN 5 WHEN 'approximate' THEN 4 WHEN 'shared' THEN 3
                        WHEN 'latency' THEN 2 WHEN 'refined' THEN 1 ELSE 0 END) AS doubt
  FROM producer
  GROUP BY function_id, pc, stall_reason
)
SELECT
  s.kernel_function_id, s.function_id, s.pc, s.stall_reason, s.samples, f.producer_count,
  CASE f.doubt WHEN 6 THEN 'none' WHEN 5 THEN 'low' WHEN 4 THEN 'approximate' WHEN 3 THEN 'shared'
               WHEN 2 THEN 'latency' WHEN 1 THEN 'refined' ELSE 'exact' END
FROM stalled s
JOIN found f ON f.function_id = s.function_id AND f.pc = s.pc AND f.stall_reason = s.stall_reason
