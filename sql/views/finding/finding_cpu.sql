-- The program, if its CPU takes more than ten times as long in its ops as the GPU in their kernels (cpu_bound), by
-- `cpu_latency`: one row or none.
--
-- No GPU sample shows an idle GPU, so samples are 0 here. Time measures the cost. CPU time was measured under the
-- recorder and is an upper bound.
CREATE VIEW finding_cpu (
  -- The kind of inefficiency.
  finding,
  -- Its subject.
  subject,
  -- Sentence with the inefficiency and its location.
  sentence,
  -- The measured fact in few words.
  fact,
  -- Recommended change.
  advice,
  -- The kernel: null, as there are several.
  kernel,
  -- No line: null, as there are several.
  line,
  -- The op with the most CPU time.
  op,
  -- No tensor: null.
  tensor_id,
  -- 0.
  samples,
  -- 0.
  saving_samples,
  -- Estimated time that `samples` represent, nanoseconds. See `cost_time`.
  estimated_ns,
  -- SQL that shows its evidence.
  query
) AS
WITH summed AS (
  SELECT
    sum(cpu_ns) AS cpu_ns, sum(estimated_ns) AS estimated_ns, CAST(sum(launch_count) AS BIGINT) AS launches,
    first_value(op ORDER BY cpu_ns DESC, op) AS op
  FROM cpu_latency
  WHERE launch_count > 0
  LIMIT 1
)
SELECT
  'cpu_bound',
  'ops of the program',
  'The CPU takes ' || CAST(CAST(cpu_ns / 1e6 AS DECIMAL(12, 2)) AS VARCHAR) || ' ms, including the recorder''s overhead, in ops '
    || 'that launch ' || CAST(launches AS VARCHAR) || ' kernels, which take '
    || CAST(CAST(estimated_ns / 1e6 AS DECIMAL(12, 3)) AS VARCHAR) || ' ms of the GPU: the GPU waits for work. Most CPU time goes '
    || 'to ' || op || '.',
  CAST(CAST(cpu_ns / 1e6 AS DECIMAL(12, 2)) AS VARCHAR) || ' ms of CPU for '
    || CAST(CAST(estimated_ns / 1e6 AS DECIMAL(12, 3)) AS VARCHAR) || ' ms of GPU, most of it in ' || op,
  'Launch less: larger batches, torch.compile, CUDA graphs. Measure the rest without the recorder.',
  CAST(NULL AS VARCHAR) AS kernel, CAST(NULL AS VARCHAR) AS line, op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id,
  0.0 AS samples, 0.0 AS saving_samples, estimated_ns,
  'SELECT op, phase, call_count, launch_count, cpu_ns, estimated_ns, ratio FROM cpu_latency ORDER BY cpu_ns DESC'
FROM summed
WHERE cpu_ns > 10 * estimated_ns
