-- One launch with its call path, callers first, and its cost.
--
-- Steps are, callers first: python (a frame of the stack at the launch, in backward of the call of backward()), forward
-- (in backward, a user's frame of the forward op whose gradient this is), module (a name of the module's dotted path),
-- op (a region or op around the launch) and kernel. A path omits categories that the launch lacks.
CREATE VIEW launch_path (
  kernel_id,
  -- The kernel.
  function_id,
  -- Hash of categories and names: equal for launches from one path, in all captures.
  path_id,
  -- The category of each step.
  levels,
  -- Its name: file:line function, a name of the module's path, an op, a kernel.
  names,
  samples,
  memory_samples,
  time_ns
) AS
WITH parted AS (
  SELECT
    kernel_id, function_id,
    coalesce(frames, make_array()) AS frames,
    coalesce(forward_frames, make_array()) AS forward_frames,
    coalesce(string_to_array(module_path, '.'), make_array()) AS modules,
    coalesce(ops, make_array()) AS ops,
    make_array(coalesce(kernel, '(unknown kernel)')) AS kernels,
    samples, memory_samples, time_ns
  FROM call_path_cost
), joined AS (
  SELECT
    kernel_id, function_id,
    array_concat(
      array_repeat('python', cardinality(frames)), array_repeat('forward', cardinality(forward_frames)),
      array_repeat('module', cardinality(modules)), array_repeat('op', cardinality(ops)), make_array('kernel')
    ) AS levels,
    array_concat(frames, forward_frames, modules, ops, kernels) AS names,
    samples, memory_samples, time_ns
  FROM parted
)
SELECT
  kernel_id, function_id,
  md5(array_to_string(levels, ' ') || chr(31) || array_to_string(names, chr(31))), levels, names,
  samples, memory_samples, time_ns
FROM joined
