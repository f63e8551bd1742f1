-- Avoidable copies by one op at one line: redundant_copy (of a contiguous tensor to one of the same type and strides),
-- layout_copy (to other strides), repeated_cast (ops cast one tensor more than once, and nothing writes it between them:
-- see `possible_write`).
--
-- Without the copy its kernels disappear. Saving: all their samples. For repeated casts, all but the first. The driver
-- copies equal layouts without a kernel: such copies have no samples, only bytes.
--
-- Time saved: 0.6 to 1.25 of the copies' time: a copy brings its result into caches, and displaces other data. Without a
-- layout_copy, each launch that reads its result is slower: by no more than the copy is slower than one in order, and than a
-- short launch of 2 microseconds. Least: 0.9 times that is subtracted for each reader, most: 0.2 times. A copy by the driver
-- takes as long as copies of its size in the timeline.
CREATE VIEW finding_copy (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel. Of several, the costliest.
  kernel,
  -- The innermost user line around it. In backward, the line whose gradient this is, with (grad).
  line,
  -- The op that copies.
  op,
  -- The copied tensor. Of several, the one with the costliest copy.
  tensor_id,
  -- Samples of its launches.
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
WITH copied AS (
  SELECT
    o.op_id, o.name AS op, a.tensor_id, a.dtype AS from_type, b.dtype AS to_type,
    b.storage_id AS made_storage_id, CAST(s.size_bytes AS DOUBLE) AS bytes,
    a.sizes = b.sizes AND a.strides = b.strides AS is_equal,
    row_number() OVER (PARTITION BY o.op_id ORDER BY t.position, u.position) AS place
  FROM op o
  JOIN op_tensor t ON t.op_id = o.op_id AND t.direction = 'in'
  JOIN tensor a ON a.tensor_id = t.tensor_id
  JOIN op_tensor u ON u.op_id = o.op_id AND u.direction <> 'in'
  JOIN tensor b ON b.tensor_id = u.tensor_id
  LEFT JOIN storage s ON s.storage_id = b.storage_id
  WHERE regexp_like(o.name, '^aten::(clone|contiguous|_to_copy|copy_)[.]')
), copied_size AS (
  -- Copies by the driver are timed in another run: equal sizes take equal times.
  SELECT size_bytes, median(CAST(end_ns - begin_ns AS DOUBLE)) AS ns
  FROM gpu_activity
  WHERE kind = 'copy' AND copy_kind = 'device_to_device'
  GROUP BY size_bytes
), moved AS (
  SELECT
    l.op_id, l.kernel, line_label(l.line, l.forward_line) AS line, l.ordinal, s.samples, s.time_ns,
    CAST(NULL AS BIGINT UNSIGNED) AS size_bytes, l.graph_id, l.graph_launch
  FROM launch_context l
  JOIN (SELECT kernel_id, sum(samples) AS samples, sum(time_ns) AS time_ns FROM sample_cost GROUP BY kernel_id) s
    ON s.kernel_id = l.kernel_id
  UNION ALL
  SELECT m.op_id, NULL, o.source_line, m.ordinal, 0.0, c.ns, m.size_bytes, NULL, NULL
  FROM memcpy m
  JOIN op_context o ON o.op_id = m.op_id
  LEFT JOIN copied_size c ON c.size_bytes = m.size_bytes
  WHERE m.kind = 'device_to_device'
), done AS (
  SELECT
    c.op_id, c.op, c.tensor_id, c.made_storage_id, c.bytes, c.from_type, c.to_type, c.is_equal, m.line, m.graph_id, m.graph_launch,
    min(m.ordinal) AS ordinal,
    first_value(m.kernel ORDER BY m.samples DESC, m.ordinal) AS kernel,
    sum(m.samples) AS samples, sum(m.time_ns) AS time_ns, sum(m.size_bytes) AS size_bytes
  FROM copied c
  JOIN moved m ON m.op_id = c.op_id
  WHERE c.place = 1
  GROUP BY c.op_id, c.op, c.tensor_id, c.made_storage_id, c.bytes, c.from_type, c.to_type, c.is_equal, m.line, m.graph_id, m.graph_launch
), source AS (
  -- Only casts between two writes of their source cast the same data.
  SELECT d.op_id, d.ordinal, d.line, count(w.object_id) AS version
  FROM done d
  JOIN tensor t ON t.tensor_id = d.tensor_id
  LEFT JOIN possible_write w
    ON w.storage_id = t.storage_id AND w.ordinal <= d.ordinal AND w.op_id IS DISTINCT FROM d.op_id
  GROUP BY d.op_id, d.ordinal, d.line
), turn AS (
  SELECT
    d.*,
    -- A CUDA graph that is launched again casts data that has changed since.
    row_number() OVER (PARTITION BY d.tensor_id, d.to_type, d.graph_id, d.graph_launch, s.version ORDER BY d.ordinal, d.op_id) AS nth,
    count(*) OVER (PARTITION BY d.tensor_id, d.to_type, d.graph_id, d.graph_launch, s.version) AS times
  FROM done d
  LEFT JOIN source s ON s.op_id = d.op_id AND s.ordinal = d.ordinal AND s.line IS NOT DISTINCT FROM d.line
), kind AS (
  SELECT
    *,
    CASE
      WHEN from_type = to_type AND is_equal THEN 'redundant_copy'
      WHEN from_type = to_type THEN 'layout_copy'
      WHEN times > 1 THEN 'repeated_cast'
    END AS finding
  FROM turn
), reader AS (
  SELECT storage_id, count(DISTINCT kernel_id) AS readers
  FROM object_use
  WHERE storage_id IS NOT NULL AND kernel_id IS NOT NULL AND direction IN ('read', 'both')
  GROUP BY storage_id
), summed AS (
  SELECT
    finding, op, line, from_type, to_type, count(DISTINCT op_id) AS copies,
    first_value(kernel ORDER BY samples DESC, size_bytes DESC, op_id) AS kernel,
    first_value(tensor_id ORDER BY samples DESC, size_bytes DESC, op_id) AS tensor_id,
    sum(size_bytes) AS size_bytes,
    sum(samples) AS samples,
    sum(CASE WHEN finding = 'repeated_cast' AND nth = 1 THEN 0.0 ELSE samples END) AS saving_samples,
    sum(time_ns) AS time_ns,
    sum(CASE WHEN finding = 'repeated_cast' AND nth = 1 THEN 0.0 ELSE time_ns END) AS saving_ns,
    -- Launches that would read the view instead are slower: by no more than the copy is slower than one in order.
    sum(CASE WHEN finding = 'layout_copy' THEN coalesce(r.readers, 1) * greatest(time_ns - 2.0 * bytes / v.rate - 2e3, 0.0) ELSE 0.0 END) AS slower_ns
  FROM kind
  LEFT JOIN reader r ON r.storage_id = kind.made_storage_id
  CROSS JOIN (SELECT max(device_bytes_per_ns) AS rate FROM memory_rate) v
  WHERE finding IS NOT NULL
  GROUP BY finding, op, line, from_type, to_type
)
SELECT
  s.finding,
  s.op || coalesce(' at ' || s.line, ''),
  s.op || coalesce(' at ' || s.line, '') || CASE s.finding
    WHEN 'redundant_copy' THEN ' copies tensors without a change of type or layout, '
    WHEN 'layout_copy' THEN ' copies tensors to another layout, '
    ELSE ' casts the same tensor from ' || s.from_type || ' to ' || s.to_type || ' again, ' END
    || CAST(s.copies AS VARCHAR) || CASE s.copies WHEN 1 THEN ' time' ELSE ' times' END
    || coalesce(', ' || CAST(s.size_bytes AS VARCHAR) || ' bytes by the driver', '') || '. The costliest copy is of `'
    || coalesce(c.label, 'a tensor') || '`' || coalesce(' (' || c.type || ')', '') || '.',
  CAST(s.copies AS VARCHAR) || CASE s.copies WHEN 1 THEN ' copy' ELSE ' copies' END || CASE s.finding
    WHEN 'redundant_copy' THEN ' without a change of type or layout' WHEN 'layout_copy' THEN ' to another layout'
    ELSE ' from ' || s.from_type || ' to ' || s.to_type END || coalesce(', the costliest of ' || c.label, ''),
  CASE s.finding
    WHEN 'redundant_copy' THEN 'Remove the copy if nothing writes to source or copy.'
    WHEN 'layout_copy' THEN 'Let later ops read the view, or create the data in this layout. Fused '
      || 'attention and channels_last models do not need such copies.'
    ELSE 'Cast it once and reuse the result, or store it in ' || s.to_type || '.' END,
  s.kernel, s.line, s.op, s.tensor_id, s.samples, s.saving_samples, s.time_ns,
  0.6 * s.saving_ns - 0.9 * s.slower_ns AS saving_low_ns, 1.25 * s.saving_ns - 0.2 * s.slower_ns AS saving_high_ns, CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  CASE WHEN s.kernel IS NULL THEN 'SELECT * FROM copy_size WHERE op = ''' ELSE 'SELECT kernel_id, kernel, op, line, '
    || 'forward_line, samples, memory_samples FROM launch_context JOIN sample_cost USING (kernel_id) WHERE op = ''' END
    || replace(s.op, '''', '''''')
    || CASE WHEN s.kernel IS NULL THEN ''' AND line ' ELSE ''' AND coalesce(forward_line || '' (grad)'', line) ' END
    || coalesce('= ''' || replace(s.line, '''', '''''') || '''', 'IS NULL')
    || CASE WHEN s.kernel IS NULL THEN ' ORDER BY total_bytes DESC' ELSE ' ORDER BY samples DESC' END
FROM summed s
LEFT JOIN target_context c ON c.target = 'tensor' AND c.object_id = s.tensor_id
