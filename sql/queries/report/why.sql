-- Why
-- The costliest waits, one sentence each: the stall, the waiting instruction, its producer, and the memory that the
-- producer accesses. Locations are source lines, or the kernel and its pc if the code has no lines.
WITH launched AS (
  SELECT kernel_id, function_id, kernel, line_label(line, forward_line) AS python_line FROM launch_context
), place AS (
  -- The first launch of a place has its texts: attributions are far more.
  SELECT min(kernel_id) AS place_id, function_id, kernel, python_line
  FROM launched
  GROUP BY function_id, kernel, python_line
), located AS (
  SELECT l.kernel_id, p.place_id
  FROM launched l
  JOIN place p ON (p.function_id IS NOT DISTINCT FROM l.function_id) AND (p.kernel IS NOT DISTINCT FROM l.kernel)
    AND (p.python_line IS NOT DISTINCT FROM l.python_line)
), named AS (
  -- Objects with equal names are one: each step allocates its buffers again.
  SELECT target, min(object_id) AS named_id, name, family_type AS type FROM target_context GROUP BY target, name, family_type
), object AS (
  SELECT t.target, t.object_id, t.label, t.family_id, n.named_id
  FROM target_context t
  JOIN named n ON (n.target IS NOT DISTINCT FROM t.target) AND (n.name IS NOT DISTINCT FROM t.name)
    AND (n.type IS NOT DISTINCT FROM t.family_type)
), charged AS (
  SELECT
    kernel_id, stall_reason, function_id, pc, producer_function_id, producer_pc, confidence, charge, target, evidence,
    coalesce(tensor_id, storage_id, allocation_id) AS object_id, sum(samples) AS samples
  FROM memory_charge
  GROUP BY kernel_id, stall_reason, function_id, pc, producer_function_id, producer_pc, confidence, charge, target,
    evidence, coalesce(tensor_id, storage_id, allocation_id)
), accessed AS (
  -- Accesses by the same launches to the same objects.
  SELECT
    kernel_id, function_id, pc, target, coalesce(tensor_id, storage_id, allocation_id) AS object_id,
    CAST(sum(request_count) AS DOUBLE) AS requests, CAST(sum(sectors) AS DOUBLE) AS sectors,
    CAST(sum(ideal_sectors) AS DOUBLE) AS ideal_sectors
  FROM pc_tensor_part
  GROUP BY kernel_id, function_id, pc, target, coalesce(tensor_id, storage_id, allocation_id)
), paid AS (
  SELECT
    l.place_id, c.stall_reason, c.function_id, c.pc, c.producer_function_id, c.producer_pc, c.confidence, c.charge,
    c.target, c.evidence, c.object_id, sum(c.samples) AS samples, sum(a.requests) AS requests, sum(a.sectors) AS sectors,
    sum(a.ideal_sectors) AS ideal_sectors
  FROM charged c
  JOIN located l ON l.kernel_id = c.kernel_id
  LEFT JOIN accessed a
    ON a.kernel_id = c.kernel_id AND a.function_id = c.producer_function_id AND a.pc = c.producer_pc
    AND a.target = c.target AND a.object_id = c.object_id
  GROUP BY l.place_id, c.stall_reason, c.function_id, c.pc, c.producer_function_id, c.producer_pc, c.confidence,
    c.charge, c.target, c.evidence, c.object_id
), alike AS (
  SELECT
    c.place_id, c.stall_reason, c.function_id, c.pc, c.producer_function_id, c.producer_pc, c.confidence, c.charge,
    c.target, c.evidence, t.named_id, max(t.label) AS label, max(CASE WHEN c.target = 'tensor' THEN t.family_id END) AS tensor_id, sum(c.samples) AS samples,
    sum(c.requests) AS requests, sum(c.sectors) AS sectors, sum(c.ideal_sectors) AS ideal_sectors
  FROM paid c
  LEFT JOIN object t ON t.target = c.target AND t.object_id = c.object_id
  GROUP BY c.place_id, c.stall_reason, c.function_id, c.pc, c.producer_function_id, c.producer_pc, c.confidence,
    c.charge, c.target, c.evidence, t.named_id
), cost AS (
  SELECT p.function_id AS kernel_function_id, p.kernel, p.python_line, n.name, n.type, c.* EXCEPT (place_id, named_id)
  FROM alike c
  JOIN place p ON p.place_id = c.place_id
  LEFT JOIN named n ON n.target = c.target AND n.named_id = c.named_id
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
    coalesce(t.target IN ('signal', 'mbarrier', 'tensor cores', 'arithmetic'), false) AS mbarrier,
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
      WHEN target = 'tensor cores' THEN ' waits for warps that wait for tensor cores before the mbarrier at ' || producer_place
      WHEN target = 'arithmetic' THEN ' waits for the arithmetic of warps before the mbarrier at ' || producer_place
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
  -- For programs and links of the page.
  python_line AS line, kernel_function_id AS function_id, function_id AS code_function_id, pc, tensor_id
FROM worded
ORDER BY samples DESC, why, function_id, code_function_id, pc, tensor_id
