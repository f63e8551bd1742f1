-- One kind of op, in one phase of the step: its CPU time next to its GPU time (DeepContext's CPU latency analysis).
--
-- With a timeline run, CPU time is the host's time for the launches of the op, as it runs alone: see `host_time`. Without
-- one, it is the time of the op under the recorder, exclusive: without the ops inside and without launch calls, which
-- last as long as the kernels there, of each call in the run where it was shortest: a run that patches kernels or compiles
-- them takes longer. It then is an upper bound, compares ops with each other, and proves nothing about the GPU. The median
-- call represents all calls, because the first ones also load code. Of fewer than five calls, the
-- shortest does. With a timeline, calls with the first launch of a kernel do not count at all. Threshold: an op is CPU-bound if
-- a timeline shows that the host takes longer for its launches than the GPU.
CREATE VIEW cpu_latency (
  -- The op's name.
  op,
  phase,
  -- Calls.
  call_count,
  -- Launches inside, except launches of ops inside it.
  launch_count,
  -- CPU time, nanoseconds: that of the median or shortest call, times the calls.
  cpu_ns,
  -- GPU time of those launches, nanoseconds. Null if neither measured nor sampled. See `launch_time`.
  time_ns,
  -- CPU time divided by GPU time.
  ratio,
  -- Samples of those launches.
  samples,
  -- timeline, or recorder if the CPU time was taken under its instruments.
  source,
  -- True if `ratio` is above 1 with a timeline. Null without one.
  is_cpu_bound
) AS
WITH inner_op AS (
  SELECT parent_op_id AS op_id, sum(end_ns - begin_ns) AS ns
  FROM op
  WHERE parent_op_id IS NOT NULL AND end_ns IS NOT NULL
  GROUP BY parent_op_id
), cost AS (
  SELECT kernel_id, sum(samples) AS samples, sum(time_ns) AS time_ns FROM sample_cost GROUP BY kernel_id
), host AS (
  SELECT h.kernel_id, avg(CAST(h.host_ns AS DOUBLE)) AS ns
  FROM host_time h
  LEFT JOIN (SELECT min(kernel_id) AS kernel_id FROM launch GROUP BY run_id, function_id) f ON f.kernel_id = h.kernel_id
  WHERE f.kernel_id IS NULL
  GROUP BY h.kernel_id
), called AS (
  SELECT l.op_id, r.run_id, sum(r.end_ns - r.begin_ns) AS ns
  FROM launch l
  JOIN launch_run r ON r.kernel_id = l.kernel_id
  WHERE l.op_id IS NOT NULL
  GROUP BY l.op_id, r.run_id
), numbered AS (
  SELECT
    o.*, r.reference_run_id,
    row_number() OVER (PARTITION BY o.run_id, o.name, o.phase ORDER BY o.begin_ns, o.op_id) AS place,
    count(*) OVER (PARTITION BY o.run_id, o.name, o.phase) AS calls
  FROM op o
  JOIN run r ON r.run_id = o.run_id
), executed AS (
  -- Ops of other runs are the same calls, if there are as many.
  SELECT
    f.op_id, min(greatest(o.end_ns - o.begin_ns - coalesce(i.ns, 0) - coalesce(c.ns, 0), 0)) AS ns
  FROM numbered f
  JOIN numbered o
    ON o.reference_run_id = f.run_id AND o.name = f.name AND coalesce(o.phase, '') = coalesce(f.phase, '') AND o.place = f.place
    AND o.calls = f.calls
  LEFT JOIN inner_op i ON i.op_id = o.op_id
  LEFT JOIN called c ON c.op_id = f.op_id AND c.run_id = o.run_id
  WHERE f.run_id IN (SELECT run_id FROM launch)
  GROUP BY f.op_id
), launched AS (
  SELECT
    l.op_id, count(*) AS launches,
    CASE WHEN count(h.ns) = count(*) THEN sum(h.ns) END AS host_ns,
    sum(c.samples) AS samples, sum(c.time_ns) AS time_ns
  FROM launch l
  LEFT JOIN cost c ON c.kernel_id = l.kernel_id
  LEFT JOIN host h ON h.kernel_id = l.kernel_id
  WHERE l.op_id IS NOT NULL
  GROUP BY l.op_id
), own AS (
  SELECT o.name, o.phase, e.ns AS recorder_ns, u.host_ns, u.launches, u.samples, u.time_ns
  FROM executed e
  JOIN op o ON o.op_id = e.op_id
  LEFT JOIN launched u ON u.op_id = e.op_id
), summed AS (
  SELECT
    name, phase, count(*) AS calls, coalesce(sum(launches), 0) AS launches,
    CASE WHEN count(*) < 5 THEN min(CAST(recorder_ns AS DOUBLE)) ELSE median(CAST(recorder_ns AS DOUBLE)) END * count(*)
      AS recorder_ns,
    CASE WHEN count(host_ns) < 5 THEN min(host_ns) ELSE median(host_ns) END * sum(CASE WHEN launches > 0 THEN 1 ELSE 0 END) AS host_ns,
    sum(time_ns) AS time_ns, coalesce(sum(samples), 0.0) AS samples
  FROM own
  GROUP BY name, phase
)
SELECT
  name, phase, calls, launches, coalesce(host_ns, recorder_ns), time_ns,
  coalesce(host_ns, recorder_ns) / nullif(time_ns, 0.0),
  samples,
  CASE WHEN host_ns IS NULL THEN 'recorder' ELSE 'timeline' END,
  CASE WHEN host_ns IS NOT NULL AND time_ns IS NOT NULL THEN host_ns > time_ns END
FROM summed
