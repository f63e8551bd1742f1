-- One collective over all its ranks: which rank came last, how long the rest waited, and why.
--
-- Clocks of imported ranks are aligned on such collectives, with an error: a delay within it is no delay. Time is measured
-- from the begin of the last rank to the last end, so waits are no part of the bus bandwidth.
CREATE VIEW collective_match (
  -- The collective, as in `collective`.
  match_id,
  -- The kind, as in `collective`.
  kind,
  -- The group of ranks.
  group_name,
  -- Ranks of the group.
  group_size,
  -- Ranks in the capture.
  rank_count,
  -- Bytes.
  size_bytes,
  -- Begin of the first rank, nanoseconds since the Unix epoch.
  begin_ns,
  -- Begin of the last rank.
  last_begin_ns,
  -- End of the last rank to end.
  end_ns,
  -- Time from the first begin to the last one, nanoseconds.
  skew_ns,
  -- Time that all ranks together waited for the last one.
  wait_ns,
  -- The run of the rank that began last.
  last_run_id,
  -- The rank that began last. Null outside distributed programs.
  last_rank,
  -- Time by which it began after the last one but one.
  delay_ns,
  -- The reason for its delay, by `collective_skew.excess`: its kernels, collectives of other groups, its input, late launch
  -- calls (launch), other. Null if none exceeds that of the rest.
  cause,
  -- The error of the ranks' clocks, nanoseconds: 95 % of the ends of collectives agree within it. Null without an alignment.
  clock_error_ns,
  -- Bus bandwidth from the begin of the last rank, bytes per second. Null where sizes are unknown.
  bus_bytes_per_second
) AS
WITH clock AS (
  SELECT run_id, CAST(value AS BIGINT) AS error_ns FROM run_option WHERE name = 'clock.error_ns'
), placed AS (
  SELECT
    s.*, lead(s.begin_ns) OVER (PARTITION BY s.match_id ORDER BY s.begin_ns DESC, s.run_id) AS before_ns
  FROM collective_skew s
), summed AS (
  SELECT
    p.match_id, count(*) AS ranks, min(p.begin_ns) AS begin_ns, max(p.begin_ns) AS last_ns, sum(p.wait_ns) AS wait_ns,
    max(k.error_ns) AS error_ns
  FROM placed p
  LEFT JOIN clock k ON k.run_id = p.run_id
  GROUP BY p.match_id
), ended AS (
  SELECT
    match_id, max(kind) AS kind, max(group_name) AS group_name, max(group_size) AS group_size, max(size_bytes) AS size_bytes,
    max(end_ns) AS end_ns, max(bus_factor) AS factor
  FROM collective
  WHERE match_id IS NOT NULL
  GROUP BY match_id
)
SELECT
  m.match_id, e.kind, e.group_name, e.group_size, m.ranks, e.size_bytes, m.begin_ns, m.last_ns, e.end_ns,
  m.last_ns - m.begin_ns, m.wait_ns, p.run_id, p.rank, p.begin_ns - p.before_ns, p.excess, m.error_ns,
  e.size_bytes * e.factor * 1e9 / nullif(CAST(e.end_ns - m.last_ns AS DOUBLE), 0.0)
FROM summed m
JOIN ended e ON e.match_id = m.match_id
JOIN placed p ON p.match_id = m.match_id AND p.is_last
WHERE m.ranks > 1
