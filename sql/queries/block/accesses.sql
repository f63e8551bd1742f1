-- Accesses of a block
-- The warp requests of one block of one launch, in the order in which the GPU queued them, the program order within a warp.
-- lanes: active ones. mask: their bits, where some are not. stride: bytes from lane to lane, where it is one. first and
-- last: the elements of the lowest and the highest address, by the strides of the tensor that all lanes belong to, else bytes
-- from the start of their memory. first_value and last_value: the numbers there, where a bundle holds them.
WITH request AS (
  SELECT function_id, pc, warp, sequence, kind, space, access_bytes, stride_bytes, lane_mask, address, span_bytes
  FROM memory_access
  WHERE kernel_id = $kernel AND block = $block
), owner AS (
  SELECT
    function_id, pc, warp, sequence, count(*) AS owners, max(target) AS target, max(storage_id) AS storage_id,
    max(tensor_id) AS tensor_id, max(allocation_id) AS allocation_id
  FROM access_tensor
  WHERE kernel_id = $kernel AND block = $block
  GROUP BY function_id, pc, warp, sequence
), valued AS (
  SELECT function_id, pc, warp, sequence, max(first_value) AS first_value, max(last_value) AS last_value
  FROM access_value
  WHERE kernel_id = $kernel AND block = $block
  GROUP BY function_id, pc, warp, sequence
), held AS (
  SELECT
    r.*, o.owners, o.target, CASE WHEN o.owners = 1 THEN o.storage_id END AS storage_id,
    CASE WHEN o.owners = 1 THEN o.tensor_id END AS tensor_id, CASE WHEN o.owners = 1 THEN o.allocation_id END AS allocation_id
  FROM request r
  JOIN owner o ON o.function_id = r.function_id AND o.pc = r.pc AND o.warp = r.warp AND o.sequence = r.sequence
), placed AS (
  SELECT *, row_number() OVER (ORDER BY sequence, address) AS place FROM held
)
SELECT
  p.warp, p.kind, p.space, lane_count(p.lane_mask) AS lanes, p.lane_mask,
  CASE WHEN p.lane_mask <> 4294967295 THEN '0x' || lpad(to_hex(CAST(p.lane_mask AS BIGINT)), 8, '0') END AS mask, p.access_bytes,
  p.stride_bytes,
  CASE WHEN p.owners > 1 THEN CAST(p.owners AS VARCHAR) || ' objects' WHEN p.target = 'not global' THEN CAST(p.space AS VARCHAR)
    ELSE coalesce(c.label, CAST(p.target AS VARCHAR)) END AS object,
  coalesce(element_index(p.address, t.address, t.element_bytes, t.sizes, t.strides),
    'byte ' || CAST(TRY_CAST(p.address AS BIGINT) - TRY_CAST(coalesce(s.address, a.address, 0) AS BIGINT) AS VARCHAR)) AS first,
  coalesce(element_index(p.address + p.span_bytes - 1, t.address, t.element_bytes, t.sizes, t.strides),
    'byte ' || CAST(TRY_CAST(p.address + p.span_bytes - 1 AS BIGINT) - TRY_CAST(coalesce(s.address, a.address, 0) AS BIGINT) AS VARCHAR)) AS last,
  CASE WHEN p.owners = 1 THEN v.first_value END AS first_value, CASE WHEN p.owners = 1 THEN v.last_value END AS last_value,
  '+0x' || to_hex(CAST(p.pc AS BIGINT)) || coalesce(' ' || i.mnemonic, '') AS instruction,
  regexp_replace(i.file, '^.*/', '') || ':' || CAST(i.line AS VARCHAR) AS source_line,
  p.function_id, p.pc, p.sequence, p.address, p.tensor_id
FROM placed p
LEFT JOIN valued v ON v.function_id = p.function_id AND v.pc = p.pc AND v.warp = p.warp AND v.sequence = p.sequence
LEFT JOIN instruction i ON i.function_id = p.function_id AND i.pc = p.pc
LEFT JOIN tensor t ON t.tensor_id = p.tensor_id
LEFT JOIN storage s ON s.storage_id = p.storage_id
LEFT JOIN device_allocation a ON a.allocation_id = p.allocation_id
LEFT JOIN target_context c ON c.target = p.target AND c.object_id = coalesce(p.tensor_id, p.storage_id, p.allocation_id)
WHERE p.place <= $top
ORDER BY p.place
