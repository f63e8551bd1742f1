-- One rank in one collective: when it came, how long it waited for the last one, and why it came when it did.
--
-- All ranks of a group leave a collective together. The time from there to the begin of the next one in the group is what
-- the rank did: `kernels_ns`, `collectives_ns`, `input_ns`, `launch_ns` and `other_ns` add up to it, by `device_state`.
-- excess is the part by which the rank exceeds the median of the ranks most: the reason why it is late, if it is.
CREATE VIEW collective_skew (
  -- The collective, as in `collective`.
  match_id,
  -- The timeline run.
  run_id,
  -- The rank.
  rank,
  kernel_id,
  begin_ns,
  -- Time that the rank waited for the last rank to begin, nanoseconds. 0 for the last.
  wait_ns,
  -- True for the rank that began last: for one rank of each collective.
  is_last,
  -- Time since the collective of the group before, or since the begin of the device's work.
  since_ns,
  -- Part of it with kernels that are no collectives.
  kernels_ns,
  -- Part with collectives only: those of other groups.
  collectives_ns,
  -- Part without, because input was copied or waited for.
  input_ns,
  -- Part without, because calls came late.
  launch_ns,
  -- The rest.
  other_ns,
  -- kernels, collectives, input, launch, other. Null if the rank exceeds the median in none.
  excess,
  -- Time by which it exceeds the median there, nanoseconds.
  excess_ns
) AS
WITH so_far AS (
  SELECT
    run_id, device_id, end_ns AS ns,
    sum(CASE WHEN state = 'kernels' THEN duration_ns ELSE 0 END) OVER upto AS kernels,
    sum(CASE WHEN state = 'collectives' THEN duration_ns ELSE 0 END) OVER upto AS collectives,
    sum(CASE WHEN state = 'input' THEN duration_ns ELSE 0 END) OVER upto AS input,
    sum(CASE WHEN state = 'launch' THEN duration_ns ELSE 0 END) OVER upto AS launch,
    sum(CASE WHEN state = 'other' THEN duration_ns ELSE 0 END) OVER upto AS other
  FROM device_state
  WINDOW upto AS (PARTITION BY run_id, device_id ORDER BY begin_ns)
), own AS (
  SELECT
    c.*,
    lag(c.end_ns) OVER (
      PARTITION BY c.run_id, c.group_name, c.group_ranks, CASE WHEN c.group_name IS NULL THEN l.function_id END
      ORDER BY c.begin_ns
    ) AS before_ns
  FROM collective c
  JOIN launch l ON l.kernel_id = c.kernel_id
  WHERE c.match_id IS NOT NULL
), part AS (
  SELECT
    o.match_id, o.run_id, o.rank, o.kernel_id, o.begin_ns,
    max(o.begin_ns) OVER (PARTITION BY o.match_id) AS last_ns,
    row_number() OVER (PARTITION BY o.match_id ORDER BY o.begin_ns DESC, o.run_id) AS place,
    greatest(coalesce(e.kernels, 0) - coalesce(b.kernels, 0), 0) AS kernels,
    greatest(coalesce(e.collectives, 0) - coalesce(b.collectives, 0), 0) AS collectives,
    greatest(coalesce(e.input, 0) - coalesce(b.input, 0), 0) AS input,
    greatest(coalesce(e.launch, 0) - coalesce(b.launch, 0), 0) AS launch,
    greatest(coalesce(e.other, 0) - coalesce(b.other, 0), 0) AS other
  FROM own o
  LEFT JOIN so_far b ON b.run_id = o.run_id AND b.device_id = o.device_id AND b.ns = o.before_ns
  LEFT JOIN so_far e ON e.run_id = o.run_id AND e.device_id = o.device_id AND e.ns = o.begin_ns
), usual AS (
  SELECT
    match_id, median(kernels) AS kernels, median(collectives) AS collectives, median(input) AS input,
    median(launch) AS launch, median(other) AS other
  FROM part
  GROUP BY match_id
), excess AS (
  SELECT
    p.*, p.kernels - u.kernels AS x_kernels, p.collectives - u.collectives AS x_collectives, p.input - u.input AS x_input,
    p.launch - u.launch AS x_launch, p.other - u.other AS x_other
  FROM part p
  JOIN usual u ON u.match_id = p.match_id
)
SELECT
  match_id, run_id, rank, kernel_id, begin_ns, last_ns - begin_ns, place = 1,
  kernels + collectives + input + launch + other, kernels, collectives, input, launch, other,
  CASE
    WHEN greatest(x_kernels, x_collectives, x_input, x_launch, x_other) <= 0 THEN NULL
    WHEN x_kernels >= greatest(x_collectives, x_input, x_launch, x_other) THEN 'kernels'
    WHEN x_input >= greatest(x_collectives, x_launch, x_other) THEN 'input'
    WHEN x_launch >= greatest(x_collectives, x_other) THEN 'launch'
    WHEN x_collectives >= x_other THEN 'collectives'
    ELSE 'other'
  END,
  greatest(x_kernels, x_collectives, x_input, x_launch, x_other, 0)
FROM excess
