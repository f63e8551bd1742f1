-- One object's cost at one location of the program: samples attributed to it in the launches of one kernel, op, module,
-- line, phase, step and phase of the program.
--
-- Samples are those of `traffic_charge`: of warps that wait for the object, and where memory is busy, by its traffic.
-- Every other view of tensor cost aggregates these rows. An object is a tensor, a storage without a known tensor, or a
-- driver allocation. Unattributed stalls are rows with a remainder. All rows add up to the samples. `object_cost` has
-- the names.
CREATE VIEW tensor_cost (
  -- tensor, or no tensor, no producer, self.
  charge,
  -- Type of the object, as in `stall_charge`. Null if unattributed.
  target,
  -- Label of unattributed stalls. Null for an object.
  remainder,
  -- The object: its tensor_id, storage_id or allocation_id, by `target`.
  object_id,
  tensor_id,
  -- Its storage.
  storage_id,
  -- The driver allocation, outside any storage.
  allocation_id,
  -- The kernel that waited.
  function_id,
  -- Its name.
  kernel,
  -- The op that launched it.
  op,
  -- Dotted path of its module. In backward, that of the forward op.
  module_path,
  -- The line that launched it.
  line,
  -- In backward, the line whose gradient it computes.
  forward_line,
  phase,
  -- Optimizer steps completed before.
  step,
  -- The phase of the program: setup, steady, end or once, as in `launch_phase`.
  program_phase,
  -- Attributed samples.
  samples,
  memory_samples,
  -- Samples of warps that wait for it, as in `stall_charge`.
  waited_samples,
  -- Weight of one counted sample among them, on average: 1 if the program was sampled. See `cost_run`.
  sample_weight,
  time_ns
) AS
WITH launched AS (
  SELECT
    l.kernel_id, l.function_id, l.kernel, l.op, l.module_path, l.line, l.forward_line, l.phase, l.step, p.program_phase,
    coalesce(p.setup_part = 'tuning', false) AS is_trial
  FROM launch_context l
  LEFT JOIN launch_phase p ON p.kernel_id = l.kernel_id
), place AS (
  -- The first launch of a place stands for its texts: attributions are far more than places.
  SELECT min(kernel_id) AS place, function_id, op, module_path, line, forward_line, phase, step, program_phase,
    is_trial
  FROM launched
  GROUP BY function_id, op, module_path, line, forward_line, phase, step, program_phase, is_trial
), located AS (
  SELECT t.run_id, t.kernel_id, t.sample_ns, p.place, p.is_trial
  FROM cost_time t
  JOIN launched l ON l.kernel_id = t.kernel_id
  JOIN place p ON (p.function_id IS NOT DISTINCT FROM l.function_id) AND (p.op IS NOT DISTINCT FROM l.op)
    AND (p.module_path IS NOT DISTINCT FROM l.module_path) AND (p.line IS NOT DISTINCT FROM l.line)
    AND (p.forward_line IS NOT DISTINCT FROM l.forward_line) AND (p.phase IS NOT DISTINCT FROM l.phase)
    AND (p.step IS NOT DISTINCT FROM l.step) AND (p.program_phase IS NOT DISTINCT FROM l.program_phase)
    AND p.is_trial = l.is_trial
), charged AS (
  -- A tuner's trials use buffers of their own, which are no tensor of the program.
  SELECT
    c.charge, c.is_memory, c.samples, c.waited_samples, c.scale, l.place, l.sample_ns,
    CASE WHEN l.is_trial THEN 'tuning' ELSE c.target END AS target,
    CASE WHEN l.is_trial THEN NULL ELSE c.tensor_id END AS tensor_id,
    CASE WHEN l.is_trial THEN NULL ELSE c.storage_id END AS storage_id,
    CASE WHEN l.is_trial THEN NULL ELSE c.allocation_id END AS allocation_id
  FROM traffic_charge c
  LEFT JOIN located l ON l.run_id = c.run_id AND l.kernel_id = c.kernel_id
), summed AS (
  SELECT
    c.charge, c.target, c.tensor_id, c.storage_id, c.allocation_id, c.place,
    sum(c.samples) AS samples,
    sum(CASE WHEN c.is_memory THEN c.samples ELSE 0.0 END) AS memory_samples,
    sum(c.waited_samples) AS waited_samples,
    -- The variance of a sum of scaled counts is the sum of the scaled samples, each scaled once more.
    sum(c.samples * c.scale) AS variance,
    sum(c.samples * c.sample_ns) AS time_ns
  FROM charged c
  GROUP BY c.charge, c.target, c.tensor_id, c.storage_id, c.allocation_id, c.place
), placed AS (
  SELECT s.*, l.* EXCEPT (kernel_id, is_trial)
  FROM summed s
  LEFT JOIN launched l ON l.kernel_id = s.place
)
SELECT
  charge, target,
  CASE
    WHEN tensor_id IS NOT NULL OR storage_id IS NOT NULL OR allocation_id IS NOT NULL THEN NULL
    WHEN target = 'tuning' THEN '(trials of a tuner)'
    WHEN charge = 'self' THEN '(not memory)'
    WHEN charge = 'no producer' THEN '(no matching access)'
    WHEN target = 'not global' THEN '(shared, local or constant memory)'
    WHEN target = 'signal' THEN '(signals of other warps)'
    WHEN target = 'mbarrier' THEN '(mbarrier, unattributed)'
    WHEN target = 'no memory' THEN '(non-memory instructions)'
    WHEN target = 'not observed' THEN '(accesses not recorded)'
    ELSE '(' || target || ')'
  END,
  coalesce(tensor_id, storage_id, allocation_id),
  tensor_id, storage_id, allocation_id, function_id, kernel, op, module_path, line, forward_line, phase, step,
  program_phase, samples, memory_samples, waited_samples, coalesce(variance / nullif(samples, 0.0), 1.0), time_ns
FROM placed
