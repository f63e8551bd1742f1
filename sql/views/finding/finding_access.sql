-- One kind of inefficient access: stalls of one kernel, launched at one line by one op, caused by its accesses to one
-- tensor (grouped by name, or op, line, shape) or to one allocation outside tensors. No sample belongs to two rows.
--
-- Kinds and their rules are those of `access_fault`. Upper bound of the saving: the share of sectors beyond the fewest (the
-- stall time is assumed to grow with sectors). For local memory, atomics and gather_latency, all.
--
-- Time saved: between three tenths (local memory: half) of the smaller and 1.15 (1.3) of the larger of two estimates: the
-- time of the stalls, and what memory's busiest resource needs less (`traffic_relief`). Misaligned accesses and gather_latency begin
-- at 0. The latter ends at 1.15 times the other launches, (n - 1) / n, if that is more: with more rows in one call,
-- there is one launch. A view's data is copied once for all uses of a version: advised if the lower end pays for it, less its cost. If
-- not, the advice is another layout where the data is created, from 0. Sources: the pairs of the book.
CREATE VIEW finding_access (
  finding,
  subject,
  sentence,
  fact,
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
  saving_samples,
  -- GPU time that `samples` represent, nanoseconds. See `launch_time`.
  time_ns,
  saving_low_ns,
  saving_high_ns,
  fix_ns,
  pays_from,
  query
) AS
WITH summed AS (
  SELECT
    s.finding, s.kernel_function_id, s.line, s.op, s.target, c.name, c.family_type AS type, c.born_at, max(c.label) AS label,
    first_value(s.object_id ORDER BY s.samples DESC, s.object_id) AS object_id,
    first_value(s.tensor_id ORDER BY s.samples DESC, s.object_id) AS tensor_id,
    first_value(s.class ORDER BY s.samples DESC, s.object_id, s.pc) AS class,
    sum(s.samples) AS samples, sum(s.saving_samples) AS saving_samples, sum(s.time_ns) AS time_ns,
    sum(s.time_ns * s.saving_samples / nullif(s.samples, 0.0)) AS stall_ns,
    sum(s.least_ns) AS least_ns, sum(s.most_ns) AS most_ns, sum(s.whole_ns) AS whole_ns,
    sum(s.copies * s.fix_ns) AS copies_ns, sum(s.fix_ns) / count(DISTINCT s.kernel_id) AS fix_ns,
    count(DISTINCT s.kernel_id) AS launches,
    sum(s.sectors) / sum(s.request_count) AS sectors_per_request,
    sum(s.ideal_sectors) / sum(s.request_count) AS ideal_per_request
  FROM access_fault s
  LEFT JOIN target_context c ON c.target = s.target AND c.object_id = s.object_id
  GROUP BY s.finding, s.kernel_function_id, s.line, s.op, s.target, c.name, c.family_type, c.born_at
), bounded AS (
  SELECT
    s.* EXCEPT (fix_ns),
    CASE WHEN finding IN ('misaligned_access', 'gather_latency') THEN 0.0
      ELSE CASE finding WHEN 'local_memory' THEN 0.5 ELSE 0.3 END * least(stall_ns, coalesce(least_ns, stall_ns)) END AS low_ns,
    CASE finding WHEN 'gather_latency' THEN 1.15 * greatest(stall_ns, whole_ns * (1.0 - 1.0 / launches))
      ELSE least(CASE finding WHEN 'local_memory' THEN 1.3 ELSE 1.15 END * greatest(stall_ns, coalesce(most_ns, 0.0)), whole_ns) END AS high_ns,
    CASE WHEN is_copied THEN fix_ns END AS fix_ns,
    CASE WHEN is_copied THEN ceil(2.0 * fix_ns * launches / (stall_ns + coalesce(most_ns, stall_ns))) END AS pays_from
  FROM (SELECT *, finding = 'uncoalesced_view' AND NOT coalesce(regexp_like(op, '::(clone|copy_|_to_copy|contiguous|cat|stack)([.]|$)'), false) AS is_copied FROM summed) s
), worded AS (
  SELECT
    s.*, NOT is_copied OR low_ns >= coalesce(copies_ns, 0.0) AS pays, n.kernel, n.short_kernel,
    coalesce('`' || s.label || '`' || coalesce(' (' || s.type || ')', ''), 'local memory') AS object,
    coalesce(', launched at ' || s.line || ',', '') AS place,
    CAST(CAST(s.sectors_per_request AS DECIMAL(9, 1)) AS VARCHAR) || ' sectors per request, where '
      || CAST(CAST(s.ideal_per_request AS DECIMAL(9, 1)) AS VARCHAR) || ' hold its bytes' AS sectors_words,
    coalesce('before ' || s.line, 'before the kernel') AS before
  FROM bounded s
  LEFT JOIN kernel_name n ON n.function_id = s.kernel_function_id
)
SELECT
  finding,
  coalesce(label, 'local memory') || ' in ' || short_kernel,
  short_kernel || place || CASE finding
    WHEN 'local_memory' THEN ' waits for local memory: spilled registers, or arrays of its threads.'
    WHEN 'atomic_wait' THEN ' waits for its atomic updates of ' || object || '.'
    WHEN 'scattered_access' THEN ' accesses ' || object || ' at scattered addresses: ' || sectors_words || '.'
    WHEN 'uncoalesced_view' THEN ' accesses the non-contiguous view ' || object || ' uncoalesced: '
      || sectors_words || '.'
    WHEN 'uncoalesced_access' THEN ' accesses ' || object || CASE class WHEN 'tiled' THEN ' in short rows: ' ELSE ' with a stride: ' END
      || sectors_words || '.'
    WHEN 'misaligned_access' THEN ' accesses ' || object || ' at addresses that are not multiples of 32 bytes: '
      || sectors_words || '.'
    ELSE ' waits for ' || object || ', whose addresses depend on indices, with too few loads in flight to hide the latency.'
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
      WHEN NOT is_copied THEN
        'This copy makes it contiguous: let later ops read the view, or write the data in this layout where '
          || 'it is created' || coalesce(' (' || born_at || ')', '') || '.'
      WHEN pays THEN 'Make it contiguous once ' || before || ' (`.contiguous()`), or store its data in the layout that is read here.'
      ELSE 'Store its data in the layout that is read here, where it is created. A copy at each use costs more than it saves.'
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
  CASE WHEN pays THEN low_ns - coalesce(copies_ns, 0.0) ELSE 0.0 END,
  CASE WHEN pays THEN high_ns - 0.3 * coalesce(copies_ns, 0.0) ELSE high_ns END,
  fix_ns, pays_from,
  'SELECT kernel_id, function_id, pc, memory_space, memory_kind, class, request_count, sectors, ideal_sectors, samples '
    || 'FROM access_cost WHERE kernel_function_id = ' || CAST(kernel_function_id AS VARCHAR)
    || CASE WHEN object_id IS NULL THEN ' AND object_id IS NULL' ELSE ' AND object_id = ' || CAST(object_id AS VARCHAR) END
    || ' ORDER BY samples DESC'
FROM worded
