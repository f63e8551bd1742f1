-- What a reader must know before trusting any answer: one fact a row, in the order of `position`.
--
-- A share of less than 1 says how much of the truth is missing; a loss is a count of things that are not in the capture.
CREATE VIEW coverage (
  -- The order in which to read.
  position,
  -- What is counted.
  item,
  -- How many.
  count,
  -- Of how many; null where there is no whole.
  total,
  -- Their ratio.
  share,
  -- What it means, where the item does not say it: the reason of a loss, the name of what is missing.
  detail
) AS
WITH charge AS (
  SELECT
    sum(CASE WHEN charge <> 'self' THEN samples ELSE 0.0 END) AS memory,
    sum(CASE WHEN charge IN ('tensor', 'no tensor') THEN samples ELSE 0.0 END) AS producer,
    sum(CASE WHEN charge = 'tensor' THEN samples ELSE 0.0 END) AS tensor
  FROM stall_charge
), seen AS (
  SELECT
    CAST(r.instrument AS VARCHAR) AS instrument,
    count(*) AS launches,
    sum(CASE WHEN s.recorded THEN 1 ELSE 0 END) AS recorded,
    sum(CASE WHEN s.matched <> 'reference' THEN 1 ELSE 0 END) AS matchable,
    sum(CASE WHEN s.matched = 'matched' THEN 1 ELSE 0 END) AS matched,
    sum(s.request_count) AS requests,
    sum(s.lost_request_count) AS lost_requests,
    sum(s.lane_access_count) AS lanes
  FROM launch_run s
  JOIN run r ON r.run_id = s.run_id
  GROUP BY r.instrument
), sampled AS (
  SELECT sum(samples) AS delivered FROM pc_sample
), dropped AS (
  SELECT sum(lost_count) AS lost FROM (SELECT DISTINCT run_id, lost_count FROM sample_time)
), used AS (
  SELECT f.memory_instruction_count AS instructions, f.uncovered_instruction_count AS uncovered
  FROM function f
  WHERE f.function_id IN (SELECT function_id FROM launch)
), fact AS (
  SELECT 10 AS position, 'runs under ' || CAST(instrument AS VARCHAR) AS item,
    CAST(count(*) AS DOUBLE) AS count, CAST(NULL AS DOUBLE) AS total, CAST(NULL AS VARCHAR) AS detail
  FROM run GROUP BY instrument
  UNION ALL
  SELECT 20, 'launches of the program', count(*), NULL, NULL FROM launch
  UNION ALL
  SELECT 21, 'launches recorded under ' || instrument, recorded, launches, NULL FROM seen
  UNION ALL
  SELECT 22, 'launches matched to the reference run', sum(matched), sum(matchable), NULL FROM seen
  HAVING sum(matchable) > 0
  UNION ALL
  SELECT 30, 'warp requests recorded', requests, requests + coalesce(lost_requests, 0), NULL
  FROM seen WHERE instrument = 'accesses'
  UNION ALL
  SELECT 31, 'lane accesses recorded', lanes, NULL, NULL FROM seen WHERE instrument = 'accesses'
  UNION ALL
  SELECT 32, 'memory instructions in launched kernels that are observed',
    sum(instructions) - sum(uncovered), sum(instructions), 'the others are tensor-map and bulk copies'
  FROM used
  UNION ALL
  SELECT 40, 'samples delivered', coalesce(delivered, 0), coalesce(delivered, 0) + coalesce(lost, 0), NULL
  FROM sampled CROSS JOIN dropped
  UNION ALL
  SELECT 41, 'samples of memory stalls', memory, delivered, NULL FROM charge CROSS JOIN sampled
  UNION ALL
  SELECT 42, 'samples of memory stalls with a producer', producer, memory, NULL FROM charge
  UNION ALL
  SELECT 43, 'samples of memory stalls with a tensor', tensor, memory, NULL FROM charge
  UNION ALL
  SELECT 50, 'launches inside an op', count(op_id), count(*), NULL FROM launch
  UNION ALL
  SELECT 51, 'ops with a Python stack', count(pystates_hash), count(*), NULL FROM op
  UNION ALL
  SELECT 60, 'lost: ' || CAST(kind AS VARCHAR), sum(lost_count), NULL, reason FROM loss GROUP BY kind, reason
  UNION ALL
  SELECT 70, 'missing table', 1, NULL, name FROM capture_table WHERE is_missing
  UNION ALL
  SELECT 80, 'bytes of tables', sum(size_bytes), NULL, NULL FROM capture_table
)
SELECT position, item, count, total, count / nullif(total, 0.0), detail FROM fact
