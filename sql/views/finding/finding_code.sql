-- One kernel whose instructions do not fit its data: float64 (it computes in double precision, but no tensor of its op
-- and no tensor that it accesses has that type), idle_tensor_cores (its op multiplies matrices or convolves, but none of
-- its instructions uses tensor cores).
--
-- From the machine code: DADD, DFMA, DMUL, DSETP and DMNMX compute in double precision. Names with MMA use tensor
-- cores. Thresholds: 5 % of the kernel's samples at instructions of double precision, any sample for the other kind.
-- Saving: the samples at those instructions. For idle_tensor_cores, all except stalls for global memory.
--
-- Time saved: from half of the time of the saved samples to the kernel's time, except stalls for global memory: conversions go with
-- double precision, and other instructions wait for both.
CREATE VIEW finding_code (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel.
  kernel,
  -- The innermost user line around its launches, if there is only one. In backward, the line whose gradient this is,
  -- with (grad).
  line,
  -- The innermost op around its launches, if there is only one.
  op,
  -- No tensor: null.
  tensor_id,
  -- Samples of its cost: at those instructions. For idle_tensor_cores, all of the kernel.
  samples,
  saving_samples,
  -- GPU time that `samples` represent, nanoseconds. See `launch_time`.
  time_ns,
  saving_low_ns,
  saving_high_ns,
  fix_ns,
  pays_from,
  query
) AS
WITH code AS (
  SELECT
    function_id, pc,
    coalesce(mnemonic IN ('DADD', 'DFMA', 'DMUL', 'DSETP', 'DMNMX'), false) AS is_double,
    coalesce(mnemonic LIKE '%MMA%', false) AS is_tensor
  FROM instruction
), function_use AS (
  SELECT function_id, max(CASE WHEN is_tensor THEN 1 ELSE 0 END) AS has_tensor FROM code GROUP BY function_id
), doubled AS (
  -- Few instructions are of this kind: they select samples before these meet their weights.
  SELECT s.kernel_id, sum(s.samples * k.scale) AS samples
  FROM (
    SELECT s.run_id, s.kernel_id, sum(s.samples) AS samples
    FROM code c
    JOIN pc_sample s ON s.function_id = c.function_id AND s.pc = c.pc
    WHERE c.is_double
    GROUP BY s.run_id, s.kernel_id
  ) s
  JOIN cost_run k ON k.run_id = s.run_id AND k.kernel_id = s.kernel_id
  GROUP BY s.kernel_id
), typed AS (
  SELECT
    u.op_id,
    max(CASE WHEN t.dtype IN ('float64', 'complex128') THEN 1 ELSE 0 END) AS has_double,
    min(CASE WHEN u.direction = 'in' AND t.dtype IN ('float16', 'bfloat16', 'float32') THEN t.dtype END) AS dtype
  FROM op_tensor u
  JOIN tensor t ON t.tensor_id = u.tensor_id
  GROUP BY u.op_id
), accessed AS (
  SELECT p.kernel_id, max(CASE WHEN t.dtype IN ('float64', 'complex128') THEN 1 ELSE 0 END) AS has_double
  FROM pc_tensor_part p
  JOIN tensor t ON t.tensor_id = p.tensor_id
  GROUP BY p.kernel_id
), cost AS (
  SELECT kernel_id, sum(samples) AS samples, sum(time_ns) AS time_ns FROM sample_cost GROUP BY kernel_id
), awaited AS (
  -- Operands come from global memory on tensor cores, too.
  SELECT kernel_id, sum(samples) AS samples
  FROM launch_sample
  WHERE stall_reason IN ('long_scoreboard', 'lg_throttle', 'tex_throttle', 'drain', 'membar')
  GROUP BY kernel_id
), product AS (
  SELECT DISTINCT function_id
  FROM function
  WHERE regexp_like(lower(demangled_name), 'gemm|conv|fprop|dgrad|wgrad|xmma|cutlass|nvjet')
), launched AS (
  SELECT
    l.function_id, l.op, line_label(l.line, l.forward_line) AS line, t.dtype,
    c.samples, coalesce(w.samples, 0.0) AS global_samples, c.time_ns, coalesce(d.samples, 0.0) AS double_samples,
    -- Null without a known tensor.
    -- In a program without a framework, types of parameters.
    coalesce(greatest(t.has_double, a.has_double), CASE WHEN l.kernel LIKE '%(%' THEN
      CASE WHEN regexp_like(l.kernel, '\bdouble\b') THEN 1 ELSE 0 END END) AS has_double, u.has_tensor,
    regexp_like(l.op, '(^|::)(mm|addmm|bmm|baddbmm|linear|convolution|convolution_backward)([.]|$)')
      AND t.dtype IS NOT NULL AS multiplies
  FROM launch_context l
  JOIN cost c ON c.kernel_id = l.kernel_id
  JOIN function_use u ON u.function_id = l.function_id
  LEFT JOIN awaited w ON w.kernel_id = l.kernel_id
  LEFT JOIN doubled d ON d.kernel_id = l.kernel_id
  LEFT JOIN typed t ON t.op_id = l.op_id
  LEFT JOIN accessed a ON a.kernel_id = l.kernel_id
), summed AS (
  SELECT
    k.finding, l.function_id,
    CASE WHEN count(DISTINCT l.line) = 1 THEN max(l.line) END AS line,
    CASE WHEN count(DISTINCT l.op) = 1 THEN max(l.op) END AS op,
    max(l.op) AS an_op, max(l.dtype) AS dtype,
    sum(CASE k.finding WHEN 'float64' THEN l.double_samples ELSE l.samples END) AS samples,
    sum(CASE k.finding WHEN 'float64' THEN l.double_samples ELSE l.samples - l.global_samples END) AS saving_samples,
    sum(CASE k.finding WHEN 'float64' THEN l.time_ns * l.double_samples / nullif(l.samples, 0.0)
      ELSE l.time_ns END) AS time_ns,
    sum(l.time_ns * (1.0 - l.global_samples / nullif(l.samples, 0.0))) AS whole_ns, sum(l.samples) AS kernel_samples
  FROM launched l
  CROSS JOIN (VALUES ('float64'), ('idle_tensor_cores')) AS k(finding)
  LEFT JOIN product p ON p.function_id = l.function_id
  WHERE k.finding = 'float64' AND l.has_double = 0 AND l.double_samples > 0.0
    OR k.finding = 'idle_tensor_cores' AND l.multiplies AND l.has_tensor = 0
      -- Kernels that copy, sum or scale next to the product cannot use them.
      AND p.function_id IS NOT NULL
  GROUP BY k.finding, l.function_id
)
SELECT
  s.finding, n.short_kernel,
  n.short_kernel || coalesce(', launched at ' || s.line || ',', '') || CASE s.finding
    WHEN 'float64' THEN ' computes in double precision, although none of its tensors has that type: '
      || CAST(CAST(round(100 * s.samples / s.kernel_samples) AS BIGINT) AS VARCHAR) || ' % of its samples are there.'
    ELSE ' multiplies ' || s.dtype || ' for ' || s.an_op || ' without tensor cores.' END,
  n.short_kernel || CASE s.finding
    WHEN 'float64' THEN ': ' || CAST(CAST(round(100 * s.samples / s.kernel_samples) AS BIGINT) AS VARCHAR)
      || ' % of its samples in double precision'
    ELSE ': multiplies ' || s.dtype || ' without tensor cores' END,
  CASE s.finding
    WHEN 'float64' THEN 'Look for constants and indices of double precision (1.0 instead of 1.0f), and compute in float32.'
    ELSE CASE s.dtype
      WHEN 'float32' THEN 'Allow TF32 (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32), or use '
        || 'bfloat16, if its precision suffices.'
      ELSE 'Make dimensions multiples of 8 and align memory to 16 bytes: the library then chooses such a kernel.' END
  END,
  n.kernel, s.line, s.op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id, s.samples, s.saving_samples, s.time_ns,
  CASE WHEN s.samples > 0.0 THEN 0.5 * s.time_ns * s.saving_samples / s.samples ELSE 0.0 * s.time_ns END AS saving_low_ns, greatest(s.whole_ns, s.time_ns) AS saving_high_ns,
  CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT mnemonic, count(*) AS instructions FROM instruction WHERE function_id = ' || CAST(s.function_id AS VARCHAR)
    || ' GROUP BY mnemonic ORDER BY instructions DESC, mnemonic'
FROM summed s
LEFT JOIN kernel_name n ON n.function_id = s.function_id
WHERE s.finding <> 'float64' OR s.samples >= 0.05 * s.kernel_samples
