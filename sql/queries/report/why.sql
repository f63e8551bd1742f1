-- Why
-- The costliest waits, one sentence each: the stall, the waiting instruction, its producer, and the memory that the
-- producer accesses. Locations are source lines, or the kernel and its pc if the code has no lines.
WITH charged AS (
  SELECT
    l.function_id AS kernel_function_id, l.kernel, coalesce(l.forward_line || ' (grad)', l.line) AS python_line,
    c.stall_reason, c.function_id, c.pc, c.producer_function_id, c.producer_pc, c.confidence, c.charge, c.target,
    c.evidence, coalesce(c.tensor_id, c.storage_id, c.allocation_id) AS object_id, c.kernel_id,
    sum(c.samples) AS samples
  FROM memory_charge c
  JOIN launch_context l ON l.kernel_id = c.kernel_id
  GROUP BY l.function_id, l.kernel, coalesce(l.forward_line || ' (grad)', l.line), c.stall_reason, c.function_id, c.pc,
    c.producer_function_id, c.producer_pc, c.confidence, c.charge, c.target, c.evidence,
    coalesce(c.tensor_id, c.storage_id, c.allocation_id), c.kernel_id
), listed AS (
  -- The tensor by which the section of tensors lists its group.
  SELECT object_id, min(object_id) OVER (PARTITION BY object, type, op, born_at) AS tensor_id
  FROM object_cost
  WHERE target = 'tensor'
), accessed AS (
  -- Accesses by the same launches to the same objects.
  SELECT
    kernel_id, function_id, pc, target, coalesce(tensor_id, storage_id, allocation_id) AS object_id,
    CAST(sum(request_count) AS DOUBLE) AS requests, CAST(sum(sectors) AS DOUBLE) AS sectors,
    CAST(sum(ideal_sectors) AS DOUBLE) AS ideal_sectors
  FROM pc_tensor_part
  GROUP BY kernel_id, function_id, pc, target, coalesce(tensor_id, storage_id, allocation_id)
), cost AS (
  -- Objects with equal names are one: each step allocates its buffers again.
  SELECT
    c.kernel_function_id, c.kernel, c.python_line, c.stall_reason, c.function_id, c.pc, c.producer_function_id,
    c.producer_pc, c.confidence, c.charge, c.target, c.evidence, t.name, max(t.label) AS label, t.type,
    max(o.tensor_id) AS tensor_id, sum(c.samples) AS samples, sum(a.requests) AS requests, sum(a.sectors) AS sectors,
    sum(a.ideal_sectors) AS ideal_sectors
  FROM charged c
  LEFT JOIN target_context t ON t.target = c.target AND t.object_id = c.object_id
  LEFT JOIN listed o ON c.target = 'tensor' AND o.object_id = c.object_id
  LEFT JOIN accessed a
    ON a.kernel_id = c.kernel_id AND a.function_id = c.producer_function_id AND a.pc = c.producer_pc
    AND a.target = c.target AND a.object_id = c.object_id
  GROUP BY c.kernel_function_id, c.kernel, c.python_line, c.stall_reason, c.function_id, c.pc, c.producer_function_id,
    c.producer_pc, c.confidence, c.charge, c.target, c.evidence, t.name, t.type
), top AS (
  SELECT * FROM cost
  ORDER BY samples DESC, kernel, pc, stall_reason, producer_pc, name, type, kernel_function_id, function_id,
    producer_function_id, python_line, confidence, charge, target, evidence
  LIMIT $top
), placed AS (
  SELECT
    t.*,
    regexp_replace(w.file, '^.*/', '') AS file, w.line,
    regexp_replace(p.file, '^.*/', '') AS producer_file, p.line AS producer_line,
    k.short_kernel,
    coalesce(w.mnemonic, 'an instruction') AS instruction,
    coalesce(p.mnemonic || CASE WHEN p.memory_bytes > 4 THEN '.' || CAST(p.memory_bytes * 8 AS VARCHAR) ELSE '' END,
      'an instruction') AS producer,
    p.memory_kind,
    coalesce(t.target IN ('signal', 'mbarrier'), false) AS mbarrier,
    t.sectors / t.requests AS sectors_per_request,
    t.ideal_sectors / t.requests AS ideal_sectors_per_request
  FROM top t
  LEFT JOIN kernel_name k ON k.function_id = t.kernel_function_id
  LEFT JOIN instruction w ON w.function_id = t.function_id AND w.pc = t.pc
  LEFT JOIN instruction p ON p.function_id = t.producer_function_id AND p.pc = t.producer_pc
), worded AS (
  SELECT
    *,
    CASE WHEN line IS NULL THEN coalesce(short_kernel, kernel, 'unknown') || '+0x' || to_hex(CAST(pc AS BIGINT))
      ELSE file || ':' || CAST(line AS VARCHAR) END AS place,
    CASE
      WHEN producer_line IS NULL THEN '+0x' || to_hex(CAST(producer_pc AS BIGINT))
      WHEN producer_file = file THEN ':' || CAST(producer_line AS VARCHAR)
      ELSE producer_file || ':' || CAST(producer_line AS VARCHAR)
    END AS producer_place,
    CASE memory_kind WHEN 'write' THEN 'writes' WHEN 'atomic' THEN 'updates' WHEN 'reduction' THEN 'updates'
      WHEN 'copy in' THEN 'copies' WHEN 'copy out' THEN 'copies' ELSE 'reads' END AS verb,
    concat_ws(', ',
      replace(type, ' strides ', ', non-contiguous, strides '),
      CASE WHEN evidence = 'derived' THEN 'by its tensor map' END,
      CASE WHEN sectors_per_request IS NOT NULL THEN
        CAST(CAST(sectors_per_request AS DECIMAL(9, 1)) AS VARCHAR) || ' sectors per request, ideal '
          || CAST(CAST(ideal_sectors_per_request AS DECIMAL(9, 1)) AS VARCHAR) END
    ) AS facts
  FROM placed
)
SELECT
  samples / (SELECT sum(CASE WHEN r.is_memory THEN s.samples ELSE 0.0 END) FROM launch_sample s
    JOIN stall_reason r ON r.reason = s.stall_reason) AS memory_share,
  samples,
  stall_reason || ' at ' || place
    || CASE
      WHEN charge = 'no producer' THEN ': no producer found'
      WHEN producer_function_id = function_id AND producer_pc = pc THEN ': the queue of its unit is full of requests by '
        || producer
      WHEN stall_reason IN ('drain', 'membar') THEN ' waits until ' || producer || ' at ' || producer_place || ' is done'
      WHEN target = 'signal' THEN ' waits for warps that arrive at an mbarrier at ' || producer_place
      WHEN mbarrier THEN ' waits for the mbarrier at ' || producer_place || ', whose signal is not known'
      ELSE ' waits for ' || producer || ' at ' || producer_place
    END
    || CASE
      WHEN charge = 'no producer' OR mbarrier THEN ''
      WHEN name IS NOT NULL THEN ', which ' || verb || ' `' || label || '`'
        || CASE WHEN facts <> '' THEN ' (' || facts || ')' ELSE '' END
      WHEN target = 'not global' THEN ', which ' || verb || ' shared, local or constant memory'
      WHEN target = 'not observed' THEN ', whose accesses were not recorded'
      WHEN target = 'no memory' THEN ', a non-memory instruction'
      ELSE ', which ' || verb || ' an ' || target
    END
    || CASE confidence WHEN 'latency' THEN '; one of several, by their latencies'
      WHEN 'shared' THEN '; shared by several producers' WHEN 'approximate' THEN '; approximate'
      WHEN 'low' THEN '; low confidence' ELSE '' END
    || coalesce('; launched at ' || python_line, '') AS why,
  -- For programs, and for the page's links. The text report omits them.
  python_line AS line, kernel_function_id AS function_id, function_id AS code_function_id, pc, tensor_id
FROM worded
ORDER BY samples DESC, why, function_id, code_function_id, pc, tensor_id
