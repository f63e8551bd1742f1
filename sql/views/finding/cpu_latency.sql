-- One kind of op, in one part of the step: the time that the CPU spent in it beside the time of the GPU (DeepContext's
-- CPU latency analysis).
--
-- CPU time is an op's own: without the ops inside it, and without its launch calls, which under the recorder last as
-- long as the kernels. The median call stands for all, because the first ones also load code. What the recorder itself
-- costs is in it, so that it is an upper bound: compare ops with each other. Threshold: an op waits for the CPU if that
-- takes more than ten times as long as its kernels.
CREATE VIEW cpu_latency (
  -- The op's name.
  op,
  -- The part of the training step.
  phase,
  -- Calls.
  call_count,
  -- Launches inside, not those of ops inside it.
  launch_count,
  -- Time of the CPU, nanoseconds: that of the median call, times the calls.
  cpu_ns,
  -- Estimated time of the GPU, nanoseconds, of those launches; null where none was measured.
  estimated_ns,
  -- The one by the other.
  ratio,
  -- Samples of those launches.
  samples,
  -- Whether `ratio` is above 10.
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
