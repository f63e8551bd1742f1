-- Warp requests against their ideal
-- For each tensor, the instruction whose excess sectors cost most. Its picture shows one of its requests. sectors, ideal
-- sectors: per request, over all requests of the instruction to the tensor. excess samples: the part of the wait that
-- excess sectors cost. Instructions that take turns, and together leave no byte out, have no excess. excess tensors:
-- tensors whose sectors exceed the ideal by a tenth. accesses_of: the launch whose recorded accesses are the
-- instruction's. Addresses of the tensor begin at low_address and end before past_address.
WITH accessed AS (
  SELECT
    *, CASE
      WHEN class = 'strided' AND covered_bytes >= stride_bytes AND memory_kind NOT IN ('atomic', 'reduction') THEN 0.0
      ELSE samples * (1 - ideal_sectors / sectors)
    END AS excess_samples
  FROM access_cost
  WHERE request_count > 0 AND sectors > 0 AND object_id IS NOT NULL AND memory_space IS DISTINCT FROM 'shared'
), cost AS (
  SELECT
    kernel_function_id, function_id, pc, target, object_id,
    first_value(kernel_id ORDER BY samples DESC, kernel_id) AS kernel_id,
    sum(samples) AS samples, sum(sectors) / sum(request_count) AS sectors,
    sum(ideal_sectors) / sum(request_count) AS ideal_sectors, sum(excess_samples) AS excess_samples
  FROM accessed
  GROUP BY kernel_function_id, function_id, pc, target, object_id
), ranked AS (
  SELECT
    c.*, o.label, o.type, CASE WHEN o.target = 'tensor' THEN o.family_id END AS tensor_id,
    row_number() OVER (
      PARTITION BY o.target, o.family_id
      ORDER BY c.excess_samples DESC, c.samples DESC, c.function_id, c.pc, c.object_id
    ) AS turn
  FROM cost c
  JOIN object_cost o ON o.target = c.target AND o.object_id = c.object_id
), placed AS (
  SELECT
    *, row_number() OVER (ORDER BY excess_samples DESC, samples DESC, function_id, pc, object_id) AS place,
    count(*) OVER () AS tensors,
    sum(CASE WHEN excess_samples > 0.0 AND sectors >= 1.1 * ideal_sectors THEN 1 ELSE 0 END) OVER () AS excess_tensors
  FROM ranked
  WHERE turn = 1
), chosen AS (
  SELECT
    p.*, coalesce(l.accesses_of, p.kernel_id) AS accesses_of, coalesce(s.address, a.address) AS low_address,
    coalesce(s.address + s.size_bytes, a.address + a.size_bytes) AS past_address
  FROM placed p
  JOIN launch l ON l.kernel_id = p.kernel_id
  LEFT JOIN tensor t ON p.target = 'tensor' AND t.tensor_id = p.object_id
  LEFT JOIN storage s
    ON s.storage_id = CASE p.target WHEN 'tensor' THEN t.storage_id WHEN 'storage' THEN p.object_id END
  LEFT JOIN device_allocation a ON p.target = 'outside any tensor' AND a.allocation_id = p.object_id
  WHERE p.place <= $top
)
SELECT
  c.place, c.tensors, c.excess_tensors, c.samples, c.excess_samples, c.sectors, c.ideal_sectors, c.label AS tensor,
  c.type, c.tensor_id, n.short_kernel AS kernel, c.kernel_function_id AS function_id, c.function_id AS code_function_id,
  c.pc, i.text, c.accesses_of, c.low_address, c.past_address
FROM chosen c
LEFT JOIN kernel_name n ON n.function_id = c.kernel_function_id
LEFT JOIN instruction i ON i.function_id = c.function_id AND i.pc = c.pc
ORDER BY c.place
