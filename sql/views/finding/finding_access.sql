-- One kind of inefficient access: stalls of one kernel, launched at one line by one op, caused by its accesses to one
-- tensor (grouped by name, or op, line, shape) or to one allocation outside tensors. No sample belongs to two rows.
--
-- Kinds, by the producer, in this order of precedence: local_memory (it accesses local memory), atomic_wait (it updates
-- global memory atomically), scattered_access, uncoalesced_view, uncoalesced_access (a quarter or more of its sectors
-- exceed the fewest that hold the bytes: the class of its requests is gather, the tensor is a non-contiguous view, any
-- other), misaligned_access (half or more of its requests have unit stride but do not begin on a sector),
-- gather_latency (its op looks up rows by index, and uses no more sectors than needed). Instructions that take turns,
-- and together leave no byte out (`covered_bytes`), are not uncoalesced. Saving: the share of sectors beyond the fewest
-- (the stall time is assumed to grow with sectors). For local memory, atomics and gather_latency, all: loads in flight
-- hide each other's latency.
CREATE VIEW finding_access (
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
  -- The kernel.
  kernel,
  -- The innermost user line around the launches. In backward, the line whose gradient this is, with (grad).
  line,
  -- The innermost op around the launches.
  op,
  -- The tensor. In a group, the costliest.
  tensor_id,
  -- Samples of its cost.
  samples,
  -- Upper bound of samples that a fix saves.
  saving_samples,
  -- GPU time that `samples` represent, nanoseconds. See `launch_time`.
  time_ns,
  -- SQL that shows its evidence.
  query
) AS
WITH accessed AS (
  SELECT
    *,
    ideal_sectors <= 0.75 * sectors AND NOT coalesce(class = 'strided' AND covered_bytes >= stride_bytes, false)
      AS is_excessive
  FROM access_cost
  WHERE memory_space IS DISTINCT FROM 'shared'
), kind AS (
  SELECT
    a.*, l.kernel, l.op, coalesce(l.forward_line || ' (grad)', l.line) AS line,
    CASE
      WHEN a.memory_space = 'local' THEN 'local_memory'
      WHEN a.memory_kind IN ('atomic', 'reduction') AND a.object_id IS NOT NULL THEN 'atomic_wait'
      WHEN a.is_excessive AND a.class = 'gather' THEN 'scattered_access'
      WHEN a.is_excessive AND NOT t.is_contiguous THEN 'uncoalesced_view'
      WHEN a.is_excessive THEN 'uncoalesced_access'
      WHEN a.misaligned_share >= 0.5 AND a.ideal_sectors < a.sectors THEN 'misaligned_access'
      WHEN a.memory_kind = 'read' AND a.class <> 'broadcast'
        AND regexp_like(l.op, '(^|::)(embedding|embedding_bag|index|index_select|gather|take|take_along_dim)([.]|$)')
        THEN 'gather_latency'
    END AS finding
  FROM accessed a
  JOIN launch_context l ON l.kernel_id = a.kernel_id
  LEFT JOIN tensor t ON t.tensor_id = a.tensor_id
), saved AS (
  SELECT
    k.*,
    CASE k.finding
      WHEN 'local_memory' THEN k.samples
      WHEN 'atomic_wait' THEN k.samples
      WHEN 'gather_latency' THEN k.samples
      ELSE k.samples * (1 - k.ideal_sectors / k.sectors)
    END AS saving_samples
  FROM kind k
  WHERE k.finding IS NOT NULL
), summed AS (
  SELECT
    s.finding, s.kernel_function_id, s.line, s.op, s.target, c.name, c.type, c.born_at, max(c.label) AS label,
    first_value(s.object_id ORDER BY s.samples DESC, s.object_id) AS object_id,
    first_value(s.tensor_id ORDER BY s.samples DESC, s.object_id) AS tensor_id,
    first_value(s.class ORDER BY s.samples DESC, s.object_id, s.pc) AS class,
    sum(s.samples) AS samples, sum(s.saving_samples) AS saving_samples, sum(s.time_ns) AS time_ns,
    sum(s.sectors) / sum(s.request_count) AS sectors_per_request,
    sum(s.ideal_sectors) / sum(s.request_count) AS ideal_per_request
  FROM saved s
  LEFT JOIN target_context c ON c.target = s.target AND c.object_id = s.object_id
  GROUP BY s.finding, s.kernel_function_id, s.line, s.op, s.target, c.name, c.type, c.born_at
), worded AS (
  SELECT
    s.*, n.kernel, n.short_kernel,
    coalesce('`' || s.label || '`' || coalesce(' (' || s.type || ')', ''), 'local memory') AS object,
    coalesce(', launched at ' || s.line, '') AS place,
    CAST(CAST(s.sectors_per_request AS DECIMAL(9, 1)) AS VARCHAR) || ' sectors per request, where '
      || CAST(CAST(s.ideal_per_request AS DECIMAL(9, 1)) AS VARCHAR) || ' hold its bytes' AS sectors_words,
    coalesce('before ' || s.line, 'before the kernel') AS before
  FROM summed s
  LEFT JOIN kernel_name n ON n.function_id = s.kernel_function_id
)
SELECT
  finding,
  coalesce(label, 'local memory') || ' in ' || short_kernel,
  short_kernel || place || CASE finding
    WHEN 'local_memory' THEN ', waits for local memory: spilled registers, or arrays of its threads.'
    WHEN 'atomic_wait' THEN ', waits for its atomic updates of ' || object || '.'
    WHEN 'scattered_access' THEN ', accesses ' || object || ' at scattered addresses: ' || sectors_words || '.'
    WHEN 'uncoalesced_view' THEN ', accesses the non-contiguous view ' || object || ' uncoalesced: '
      || sectors_words || '.'
    WHEN 'uncoalesced_access' THEN ', accesses ' || object || CASE class WHEN 'tiled' THEN ' in short rows: ' ELSE ' with a stride: ' END
      || sectors_words || '.'
    WHEN 'misaligned_access' THEN ', accesses ' || object || ' at addresses that are not multiples of 32 bytes: '
      || sectors_words || '.'
    ELSE ', waits for ' || object || ', whose addresses depend on indices, with too few loads in flight to hide the latency.'
  END,
  short_kernel || CASE finding
    WHEN 'local_memory' THEN ': spilled registers, or arrays of its threads'
    WHEN 'atomic_wait' THEN ': atomic updates of ' || coalesce(label, 'memory')
    WHEN 'gather_latency' THEN ': too few loads in flight of ' || coalesce(label, 'memory')
    ELSE ', ' || coalesce(label, 'memory') || ': ' || regexp_replace(CAST(CAST(sectors_per_request AS DECIMAL(9, 1)) AS VARCHAR), '[.]0$', '')
      || ' sectors per request, ' || regexp_replace(CAST(CAST(ideal_per_request AS DECIMAL(9, 1)) AS VARCHAR), '[.]0$', '')
      || ' needed'
  END,
  CASE finding
    WHEN 'local_memory' THEN
      'Reduce the registers of a thread: smaller tiles, indices known at compile time, or allow more (__launch_bounds__).'
    WHEN 'atomic_wait' THEN
      'Aggregate in registers and shared memory first, with one update per block and element, or spread the updates over '
        || 'several copies.'
    WHEN 'scattered_access' THEN CASE
      WHEN regexp_like(op, '(embedding|index|gather|scatter|take|masked|nonzero)') OR op IS NULL THEN
        'Let neighbouring threads access neighbouring elements: sort the indices, or fetch a longer row per index.'
      ELSE 'Let neighbouring threads access neighbouring elements, or load a tile into shared memory first.'
    END
    WHEN 'uncoalesced_view' THEN CASE
      WHEN regexp_like(op, '::(clone|copy_|_to_copy|contiguous|cat|stack)([.]|$)') THEN
        'This copy makes it contiguous: let later ops read the view, or write the data in this layout where '
          || 'it is created' || coalesce(' (' || born_at || ')', '') || '.'
      ELSE 'Make it contiguous once ' || before || ' (`.contiguous()`), or store its data in the layout that is read here.'
    END
    WHEN 'uncoalesced_access' THEN
      'Let neighbouring threads access neighbouring elements: another layout, another order of loops, or a tile in shared '
        || 'memory.'
    WHEN 'misaligned_access' THEN
      'Align rows to 32 bytes: pad them, or slice at multiples of 32 bytes.'
    ELSE 'Keep more loads in flight: more rows in one call, several loads per thread. Or sort the indices, or use a smaller '
      || 'type.'
  END,
  kernel, line, op, tensor_id, samples, saving_samples, time_ns,
  'SELECT kernel_id, function_id, pc, memory_space, memory_kind, class, request_count, sectors, ideal_sectors, samples '
    || 'FROM access_cost WHERE kernel_function_id = ' || CAST(kernel_function_id AS VARCHAR)
    || CASE WHEN object_id IS NULL THEN ' AND object_id IS NULL' ELSE ' AND object_id = ' || CAST(object_id AS VARCHAR) END
    || ' ORDER BY samples DESC'
FROM worded
