-- One kind of op, in one phase of the step: its CPU time next to its GPU time (DeepContext's CPU latency analysis).
--
-- CPU time is exclusive: without the ops inside, and without launch calls, which last as long as the kernels under the
-- recorder. The median call represents all calls, because the first ones also load code. The time includes the
-- recorder's overhead and is an upper bound: compare ops with each other. Threshold: an op is CPU-bound if it takes
-- more than ten times as long as its kernels.
CREATE VIEW cpu_latency (
  -- The op's name.
  op,
  -- The phase of the training step.
  phase,
  -- Calls.
  call_count,
  -- Launches inside, except launches of ops inside it.
  launch_count,
  -- CPU time, nanoseconds: that of the median call, times the calls.
  cpu_ns,
  -- Estimated GPU time of those launches, nanoseconds. Null if none was measured.
  estimated_ns,
  -- CPU time divided by GPU time.
  ratio,
  -- Samples of those launches.
  samples,
  -- True if `ratio` is above 10.
  is_cpu_bound
) AS
WITH inner_op AS (
  SELECT parent_op_id AS op_id, sum(end_ns - begin_ns) AS ns
  FROM op
  WHERE parent_op_id IS NOT NULL AND end_ns IS NOT NULL
  GROUP BY parent_op_id
), cost AS (
  SELECT kernel_id, sum(samples) AS samples, sum(estimated_ns) AS estimated_ns FROM sample_cost GROUP BY kernel_id
), launched AS (
  SELECT
    l.op_id, count(*) AS launches, sum(r.end_ns - r.begin_ns) AS call_ns,
    sum(c.samples) AS samples, sum(c.estimated_ns) AS estimated_ns
  FROM launch l
  LEFT JOIN launch_run r ON r.run_id = l.run_id AND r.kernel_id = l.kernel_id
  LEFT JOIN cost c ON c.kernel_id = l.kernel_id
  WHERE l.op_id IS NOT NULL
  GROUP BY l.op_id
), own AS (
  SELECT
    o.name, o.phase,
    greatest(o.end_ns - o.begin_ns - coalesce(i.ns, 0) - coalesce(u.call_ns, 0), 0) AS cpu_ns,
    u.launches, u.samples, u.estimated_ns
  FROM op o
  LEFT JOIN inner_op i ON i.op_id = o.op_id
  LEFT JOIN launched u ON u.op_id = o.op_id
  -- Ops of other runs are the same calls.
  WHERE o.run_id IN (SELECT run_id FROM launch)
), summed AS (
  SELECT
    name, phase, count(*) AS calls, coalesce(sum(launches), 0) AS launches,
    median(CAST(cpu_ns AS DOUBLE)) * count(*) AS cpu_ns,
    sum(estimated_ns) AS estimated_ns, coalesce(sum(samples), 0.0) AS samples
  FROM own
  GROUP BY name, phase
)
SELECT
  name, phase, calls, launches, cpu_ns, estimated_ns,
  cpu_ns / nullif(estimated_ns, 0.0),
  samples,
  coalesce(cpu_ns / nullif(estimated_ns, 0.0) > 10, false)
FROM summed
