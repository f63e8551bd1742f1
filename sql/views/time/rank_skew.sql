-- One rank of a program with collectives: how often and how long other ranks waited for it, and how long it waited itself.
--
-- Over all ranks, `caused_wait_ns` adds up to `wait_ns`.
CREATE VIEW rank_skew (
  -- The timeline run.
  run_id,
  -- The rank. Null outside distributed programs.
  rank,
  -- Collectives with other ranks.
  collective_count,
  -- Collectives at which it began last, by more than the error of the clocks.
  last_count,
  -- Time that other ranks waited for it, each on its own, nanoseconds.
  caused_wait_ns,
  -- Time by which it began after the last rank but one, nanoseconds: the program is faster by it without the delays.
  delay_ns,
  -- Part of `delay_ns` because of its own kernels.
  kernels_delay_ns,
  -- Part because of late launch calls.
  launch_delay_ns,
  -- Part because of its input.
  input_delay_ns,
  -- The cause of most of `delay_ns`: kernels, launch, input or other. Null without a delay.
  cause,
  -- Time that it waited for other ranks.
  wait_ns
) AS
WITH caused AS (
  SELECT
    last_run_id AS run_id,
    sum(CASE WHEN delay_ns > coalesce(clock_error_ns, 0) THEN 1 ELSE 0 END) AS lasts,
    sum(wait_ns) AS caused_ns, sum(delay_ns) AS delay_ns,
    sum(CASE WHEN cause = 'kernels' THEN delay_ns ELSE 0 END) AS kernels_ns,
    sum(CASE WHEN cause = 'launch' THEN delay_ns ELSE 0 END) AS launch_ns,
    sum(CASE WHEN cause = 'input' THEN delay_ns ELSE 0 END) AS input_ns
  FROM collective_match
  GROUP BY last_run_id
), waited AS (
  SELECT s.run_id, max(s.rank) AS rank, count(*) AS collectives, sum(s.wait_ns) AS wait_ns
  FROM collective_skew s
  JOIN collective_match m ON m.match_id = s.match_id
  GROUP BY s.run_id
)
SELECT
  w.run_id, w.rank, w.collectives, coalesce(c.lasts, 0), coalesce(c.caused_ns, 0), coalesce(c.delay_ns, 0),
  coalesce(c.kernels_ns, 0), coalesce(c.launch_ns, 0), coalesce(c.input_ns, 0),
  CASE
    WHEN coalesce(c.delay_ns, 0) = 0 THEN NULL
    WHEN c.kernels_ns >= greatest(c.launch_ns, c.input_ns, c.delay_ns - c.kernels_ns - c.launch_ns - c.input_ns) THEN 'kernels'
    WHEN c.input_ns >= greatest(c.launch_ns, c.delay_ns - c.kernels_ns - c.launch_ns - c.input_ns) THEN 'input'
    WHEN c.launch_ns >= c.delay_ns - c.kernels_ns - c.launch_ns - c.input_ns THEN 'launch'
    ELSE 'other'
  END,
  w.wait_ns
FROM waited w
LEFT JOIN caused c ON c.run_id = w.run_id
