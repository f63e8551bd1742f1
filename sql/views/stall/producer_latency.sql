-- One producer of a stall that waits for several at once, by their latencies. Waits for alternatives have no rows, and
-- neither have waits for a producer of unknown latency.
--
-- A wait ends when its last producer has returned. The time from the stall to the return of a producer is its latency
-- (a mixture of the levels that serve it, each of logistic distribution) less the cycles since its issue. A producer's
-- part of the stall is the mean of the time waited if it comes last: the integral of t f(t) times the product of all
-- other F(t) over t > 0, where F is the distribution of the time and f its density. Alternatives, which share a slot,
-- are one distribution, weighted as in `producer_by_sectors`. Copies by tensor maps and pointers come from L2 as
-- `copy_level` says.
CREATE VIEW producer_latency (
  -- The function.
  function_id,
  -- The stalled instruction.
  pc,
  stall_reason,
  producer_function_id,
  producer_pc,
  -- Its slot, as in `producer_candidate`.
  slot,
  -- Mean cycles from the producer's issue to its result.
  latency_cycles,
  -- Cycles of issue between the producer and the stall.
  covered_cycles,
  -- Probability that it returns last, and after the stall begins.
  last_share,
  -- The producer's part of the stall: sums to 1.
  weight
) AS
WITH gpu AS (
  SELECT max(compute_major * 10 + compute_minor) AS compute_capability FROM device
), latency AS (
  SELECT m.level, m.latency_cycles, m.spread_cycles, m.line_cycles, m.sector_cycles
  FROM memory_latency m
  JOIN (
    SELECT max(m.compute_capability) AS compute_capability
    FROM memory_latency m
    JOIN gpu g ON m.compute_capability <= g.compute_capability
  ) newest ON newest.compute_capability = m.compute_capability
), shared AS (
  SELECT
    *,
    min(slot) OVER (PARTITION BY function_id, pc, stall_reason) AS first_slot,
    max(slot) OVER (PARTITION BY function_id, pc, stall_reason) AS last_slot,
    sum(weight) OVER (PARTITION BY function_id, pc, stall_reason, slot) AS slot_weight
  FROM producer_by_sectors
  WHERE confidence = 'shared' OR link IN ('mbarrier', 'in order')
), joint AS (
  SELECT * FROM shared WHERE first_slot < last_slot
), awaited AS (
  SELECT DISTINCT producer_function_id AS function_id, producer_pc AS pc FROM joint
), request AS (
  -- As in `request_level`, of the launches that execute such a producer: other launches cost most of the time.
  SELECT
    r.function_id, r.pc, sum(r.requests) AS requests, sum(r.lines) AS lines, sum(r.sectors) AS sectors,
    sum(r.l1_sectors) / sum(r.sectors) AS l1_share,
    (sum(r.l2_sectors) - sum(r.l1_sectors)) / sum(r.sectors) AS l2_share,
    1.0 - sum(r.l2_sectors) / sum(r.sectors) AS device_share,
    sum(r.resident_warps * r.sectors) / sum(r.sectors) AS resident_warps
  FROM (
    SELECT DISTINCT t.kernel_id
    FROM pc_tensor t
    JOIN awaited a ON a.function_id = t.function_id AND a.pc = t.pc
  ) l
  JOIN launch_request_level r ON r.kernel_id = l.kernel_id
  JOIN awaited a ON a.function_id = r.function_id AND a.pc = r.pc
  GROUP BY r.function_id, r.pc
  HAVING sum(r.sectors) > 0
), copied AS (
  SELECT c.function_id, c.pc, 1.0 - avg(c.device_share) AS l2_share
  FROM copy_level c
  JOIN awaited a ON a.function_id = c.function_id AND a.pc = c.pc
  GROUP BY c.function_id, c.pc
), level AS (
  SELECT
    j.function_id, j.pc, j.stall_reason, j.producer_function_id, j.producer_pc, j.slot,
    j.weight / j.slot_weight AS part, CAST(coalesce(j.covered_cycles, 0) AS DOUBLE) AS covered_cycles,
    l.latency_cycles, l.spread_cycles,
    -- Throughput of the multiprocessor: cycles for one such request of each resident warp.
    coalesce((l.line_cycles * r.lines + l.sector_cycles * r.sectors) / r.requests * r.resident_warps, 0.0)
      AS queue_cycles,
    CASE
      WHEN j.producer_space IN ('global', 'generic') THEN
        CASE l.level
          WHEN 'L1' THEN coalesce(r.l1_share, c.l2_share * 0.0)
          WHEN 'L2' THEN coalesce(r.l2_share, c.l2_share)
          WHEN 'device' THEN coalesce(r.device_share, 1.0 - c.l2_share)
          ELSE 0.0 END
      WHEN j.producer_space = 'shared' THEN CASE l.level WHEN 'shared' THEN 1.0 ELSE 0.0 END
      WHEN j.producer_space = 'local' THEN CASE l.level WHEN 'L1' THEN 1.0 ELSE 0.0 END
      WHEN j.producer_space IN ('none', 'constant') THEN CASE l.level WHEN 'unit' THEN 1.0 ELSE 0.0 END
    END AS share
  FROM joint j
  CROSS JOIN latency l
  LEFT JOIN request r ON r.function_id = j.producer_function_id AND r.pc = j.producer_pc
  LEFT JOIN copied c ON c.function_id = j.producer_function_id AND c.pc = j.producer_pc
), known AS (
  -- A request comes at any place of the queue: the variance of even distribution is a twelfth of the square.
  SELECT
    function_id, pc, stall_reason, producer_function_id, producer_pc, slot, part, covered_cycles, share,
    latency_cycles + queue_cycles / 2.0 AS latency_cycles,
    sqrt(power(spread_cycles, 2.0) + power(queue_cycles, 2.0) / 12.0) * sqrt(3.0) / pi() AS scale_cycles,
    count(*) OVER w AS levels,
    count(share) OVER w AS known_levels
  FROM level
  WINDOW w AS (PARTITION BY function_id, pc, stall_reason)
), moment AS (
  -- Times after the stall begins, in steps that grow by a seventh.
  SELECT step, 4.0 * (power(1.15, step) - 1.0) AS begin, 4.0 * (power(1.15, step + 1) - 1.0) AS until
  FROM (SELECT unnest(range(0, 48)) AS step)
), curve AS (
  -- The distribution of each producer's return at both ends of each step.
  SELECT
    k.function_id, k.pc, k.stall_reason, k.producer_function_id, k.producer_pc, k.slot, k.part, k.covered_cycles,
    m.step, m.begin, m.until,
    sum(k.share * k.latency_cycles) AS latency_cycles,
    sum(k.share / (1.0 + exp((k.latency_cycles - k.covered_cycles - m.begin) / k.scale_cycles))) AS low,
    sum(k.share / (1.0 + exp((k.latency_cycles - k.covered_cycles - m.until) / k.scale_cycles))) AS high
  FROM known k
  CROSS JOIN moment m
  WHERE k.known_levels = k.levels AND k.share > 0.0
  GROUP BY k.function_id, k.pc, k.stall_reason, k.producer_function_id, k.producer_pc, k.slot, k.part,
    k.covered_cycles, m.step, m.begin, m.until
), slot AS (
  -- The distribution of the return of each slot, at each of its producers.
  SELECT
    *,
    ln(greatest(sum(part * (low + high) / 2.0) OVER (PARTITION BY function_id, pc, stall_reason, slot, step), 1e-30))
      AS log_arrived,
    row_number() OVER (PARTITION BY function_id, pc, stall_reason, slot, step ORDER BY producer_function_id, producer_pc)
      AS place
  FROM curve
), together AS (
  SELECT
    *,
    sum(CASE WHEN place = 1 THEN log_arrived ELSE 0.0 END) OVER (PARTITION BY function_id, pc, stall_reason, step)
      AS log_all
  FROM slot
), waited AS (
  SELECT
    function_id, pc, stall_reason, producer_function_id, producer_pc, slot, covered_cycles,
    max(latency_cycles) AS latency_cycles,
    sum(part * (high - low) * exp(log_all - log_arrived)) AS last_share,
    sum(part * (high - low) * exp(log_all - log_arrived) * (begin + until) / 2.0) AS cycles
  FROM together
  GROUP BY function_id, pc, stall_reason, producer_function_id, producer_pc, slot, covered_cycles
), summed AS (
  SELECT *, sum(cycles) OVER (PARTITION BY function_id, pc, stall_reason) AS all_cycles FROM waited
)
SELECT
  function_id, pc, stall_reason, producer_function_id, producer_pc, slot, latency_cycles, covered_cycles, last_share,
  cycles / all_cycles
FROM summed
WHERE all_cycles > 0.0
