-- One fact about the completeness of the capture, ordered by `position`. Read it before you trust any result.
--
-- A share below 1 shows missing data. A loss counts items that the capture lacks.
CREATE VIEW coverage (
  position,
  item,
  count,
  -- Total of the item. Null if it has none.
  total,
  -- Their ratio.
  share,
  -- True if nothing that should be there is missing. Null if a part is expected, or if there is no total.
  is_whole,
  -- Explanation, if the item needs one: the reason of a loss, the name of the missing item.
  detail
) AS
-- Each LIMIT 1 below keeps filters above a sum over everything. DataFusion 55 moves a filter on a constant below
-- it, where the sum of no rows is again a row.
WITH seen AS (
  SELECT
    CAST(r.instrument AS VARCHAR) AS instrument,
    count(*) AS launches,
    sum(CASE WHEN s.recorded THEN 1 ELSE 0 END) AS recorded,
    sum(CASE WHEN s.matched <> 'reference' THEN 1 ELSE 0 END) AS matchable,
    sum(CASE WHEN s.matched = 'matched' THEN 1 ELSE 0 END) AS matched,
    sum(s.request_count) AS requests,
    sum(s.lost_request_count) AS lost_requests,
    sum(CASE WHEN a.source = 'counts' THEN 0 ELSE s.lost_request_count END) AS unknown_requests,
    sum(CASE WHEN a.source = 'counts' AND s.request_count IS NOT NULL THEN 1 ELSE 0 END) AS counted,
    sum(CASE WHEN a.source = 'model launch' AND s.request_count IS NOT NULL THEN 1 ELSE 0 END) AS referring,
    sum(s.lane_access_count) AS lanes
  FROM launch_run s
  JOIN run r ON r.run_id = s.run_id
  LEFT JOIN launch_access a ON a.kernel_id = s.kernel_id
  WHERE s.matched <> 'replayed'
  GROUP BY r.instrument
), ran AS (
  SELECT
    r.instrument, CASE WHEN p.run_id IS NULL THEN 10 ELSE 11 END AS position,
    CASE WHEN p.run_id IS NULL THEN 'runs' ELSE 'runs of replays' END AS what
  FROM run r
  LEFT JOIN (SELECT DISTINCT run_id FROM replay) p ON p.run_id = r.run_id
), costed AS (
  SELECT sum(CASE WHEN k.is_replay THEN 1 ELSE 0 END) AS replayed, count(p.kernel_id) AS launches
  FROM cost_run k LEFT JOIN program_launch p ON p.kernel_id = k.kernel_id LIMIT 1
), timed AS (
  SELECT
    sum(CASE WHEN m.kernel_id IS NULL THEN 0 ELSE 1 END) AS measured, count(*) AS launches,
    sum(CASE WHEN m.source = 'replay' THEN 1 ELSE 0 END) AS replayed
  FROM program_launch l LEFT JOIN measured_time m ON m.kernel_id = l.kernel_id LIMIT 1
), located AS (
  SELECT count(*) AS kernels, count(kernel_id) AS launched FROM gpu_activity WHERE kind = 'kernel' LIMIT 1
), launched AS (
  SELECT count(*) AS launches, count(op_id) AS with_op, count(pystates_hash) AS with_stack
  FROM launch l JOIN program_launch p ON p.kernel_id = l.kernel_id LIMIT 1
), called AS (
  SELECT count(*) AS ops, count(pystates_hash) AS with_stack FROM op LIMIT 1
), sampled AS (
  SELECT coalesce(sum(samples), 0.0) AS samples, coalesce(sum(memory_samples), 0.0) AS memory FROM sample_cost LIMIT 1
), provider AS (
  SELECT DISTINCT run_id FROM cost_run
), collected AS (
  -- Counts of the runs that provide costs.
  SELECT coalesce(sum(samples), 0) AS collected
  FROM launch_stall s
  JOIN provider p ON p.run_id = s.run_id
  LIMIT 1
), dropped AS (
  SELECT coalesce(sum(missing_count), 0.0) AS lost
  FROM (SELECT DISTINCT t.run_id, t.missing_count FROM sample_time t JOIN provider p ON p.run_id = t.run_id)
  LIMIT 1
), stored AS (
  SELECT sum(size_bytes) AS bytes FROM capture_table LIMIT 1
), fact AS (
  SELECT position, what || ' under ' || CAST(instrument AS VARCHAR) AS item,
    CAST(count(*) AS DOUBLE) AS count, CAST(NULL AS DOUBLE) AS total, CAST(NULL AS BOOLEAN) AS is_whole,
    CAST(NULL AS VARCHAR) AS detail
  FROM ran
  GROUP BY position, what, instrument
  UNION ALL
  SELECT * FROM rank_coverage
  UNION ALL
  SELECT * FROM graph_coverage UNION ALL SELECT * FROM attribution_coverage
  UNION ALL
  SELECT f.position, f.item, CASE f.position WHEN 20 THEN l.launches WHEN 50 THEN l.with_op ELSE l.with_stack END,
    CASE WHEN f.position <> 20 THEN l.launches END, NULL, NULL
  FROM launched l
  CROSS JOIN (VALUES (20, 'launches of the program'), (50, 'launches inside an op'), (51, 'launches with a Python stack'))
    AS f(position, item)
  UNION ALL
  SELECT f.position, f.item || CASE WHEN f.position < 30 THEN s.instrument || f.rest ELSE '' END,
    CASE f.fact WHEN 'recorded' THEN s.recorded WHEN 'matched' THEN s.matched WHEN 'requests' THEN s.requests
      WHEN 'lanes' THEN s.lanes WHEN 'counted' THEN s.counted ELSE s.referring END,
    CASE f.fact WHEN 'matched' THEN s.matchable WHEN 'requests' THEN s.requests + coalesce(s.lost_requests, 0)
      WHEN 'lanes' THEN NULL ELSE s.launches END,
    CASE
      WHEN f.fact = 'recorded' THEN s.recorded + s.referring >= s.launches
      WHEN f.fact = 'matched' THEN s.matched = s.matchable
      -- A sample is expected where the GPU counted every request.
      WHEN f.fact = 'requests' AND s.unknown_requests > 0 THEN false
      WHEN f.fact = 'requests' AND coalesce(s.lost_requests, 0) = 0 THEN true
    END,
    CASE WHEN f.fact = 'recorded' AND s.referring > 0 THEN 'the accesses of the rest are those of earlier launches'
      WHEN f.fact = 'requests' AND s.counted > 0 AND s.lost_requests > 0
      THEN 'the rest is counted, by instruction and block of memory' END
  FROM seen s
  JOIN (
    VALUES (21, 'recorded', 'launches recorded under ', ''), (22, 'matched', 'launches under ', ' matched to the reference run'),
      (30, 'requests', 'warp requests recorded', ''), (31, 'lanes', 'lane accesses recorded', ''),
      (31, 'counted', 'launches with all requests counted on the GPU', ''),
      (31, 'referring', 'launches with the accesses of an earlier launch of their kind', '')
  ) AS f(position, fact, item, rest) ON CASE f.fact WHEN 'recorded' THEN true WHEN 'matched' THEN s.matchable > 0
    WHEN 'counted' THEN s.counted > 0 WHEN 'referring' THEN s.referring > 0 ELSE s.instrument = 'accesses' END
  UNION ALL
  SELECT 23, 'launches with the cost of replays', replayed, launches, NULL, '--cost-from ' || cost_from() || ' chose them'
  FROM costed CROSS JOIN (SELECT count(*) AS replays FROM sampled_launch WHERE is_replay LIMIT 1) p
  WHERE p.replays > 0
  UNION ALL
  SELECT 24, 'launches with a measured time', measured, launches, CASE WHEN measured > replayed THEN measured = launches END,
    CASE
      WHEN measured = 0 THEN 'times are estimated from samples'
      WHEN replayed = measured THEN 'measured in replays'
    END
  FROM timed
  WHERE launches > 0
  UNION ALL
  SELECT 25, 'measured kernels with their launch', launched, kernels, launched = kernels, NULL FROM located WHERE kernels > 0
  UNION ALL
  SELECT * FROM code_coverage
  UNION ALL
  -- Costs are scaled to one execution.
  SELECT 40, 'samples collected' || CASE WHEN replayed > 0 THEN ', in all repeats' ELSE '' END, collected, collected + lost,
    lost = 0, NULL FROM collected CROSS JOIN dropped CROSS JOIN costed
  UNION ALL
  SELECT 41, 'samples of memory stalls', memory, samples, NULL, NULL FROM sampled
  UNION ALL
  SELECT 41 + ordinal, 'samples of memory stalls ' || item, samples, memory_samples, NULL, NULL
  FROM stall_coverage
  WHERE samples > 0 OR ordinal IN (1, 7, 8)
  UNION ALL
  SELECT * FROM traffic_coverage
  UNION ALL
  SELECT 52, 'ops with a Python stack', with_stack, ops, NULL, NULL FROM called
  UNION ALL
  -- Launches among launches, bytes among bytes. Losses explain why launches are not bundled.
  SELECT CASE WHEN ordinal <= 6 THEN 52 + ordinal ELSE 74 + ordinal END, item, count, total, is_whole, detail
  FROM replay_coverage
  WHERE item <> 'launches not bundled'
  UNION ALL
  -- Each instrument loses launches of its own, and what one loses another may have.
  SELECT 60, 'lost' || CASE WHEN p.run_id IS NULL THEN '' ELSE ' in replays' END || ' under ' || r.instrument || ': ' || l.kind,
    sum(l.lost_count), NULL, false, l.reason
  FROM loss l JOIN run r ON r.run_id = l.run_id
  LEFT JOIN (SELECT DISTINCT run_id FROM replay) p ON p.run_id = l.run_id
  GROUP BY p.run_id IS NULL, r.instrument, l.kind, l.reason
  UNION ALL
  SELECT 70, 'missing table', 1, NULL, false, name FROM capture_table WHERE is_missing
  UNION ALL
  SELECT 80, 'bytes of tables', bytes, NULL, NULL, NULL FROM stored
)
SELECT
  position, item, CAST(count AS DOUBLE), CAST(total AS DOUBLE), CAST(count AS DOUBLE) / nullif(CAST(total AS DOUBLE), 0.0),
  is_whole, detail
FROM fact
