-- Shares by tensor
-- All samples of some phases of the program, as parts of 1: the costliest tensors, other tensors, memory stalls without a tensor, and the rest.
-- kind: tensor, tensors (all further ones), memory, other. waited_at: the line or kernel that waited most. waited_share:
-- the part that waits for it, where share is by traffic.
WITH used AS (
  SELECT
    target, object_id, remainder, coalesce(line_label(line, forward_line), kernel_label(kernel)) AS stalled_at,
    sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(waited_samples) AS waited_samples
  FROM tensor_cost
  WHERE program_phase IN ($phases)
  GROUP BY 1, 2, 3, 4
), summed AS (
  SELECT
    target, object_id, remainder, first_value(stalled_at ORDER BY samples DESC, stalled_at) AS stalled_at,
    sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(waited_samples) AS waited_samples
  FROM used
  GROUP BY target, object_id, remainder
), named AS (
  SELECT
    s.*, t.family_type AS type, t.op, t.born_at, CASE WHEN s.remainder IS NULL THEN coalesce(t.name, 'unnamed') END AS object,
    CASE WHEN s.remainder IS NULL THEN coalesce(t.family, 'unnamed') END AS family,
    CASE WHEN s.remainder IS NULL THEN coalesce(t.label, 'unnamed') END AS label
  FROM summed s
  LEFT JOIN target_context t ON t.target = s.target AND t.object_id = s.object_id
), cost AS (
  SELECT
    remainder, target, family AS object, type, op, born_at, CASE WHEN count(DISTINCT object) > 1 THEN family ELSE max(label) END AS label,
    first_value(object_id ORDER BY samples DESC, object_id) AS object_id,
    first_value(stalled_at ORDER BY samples DESC, stalled_at) AS stalled_at,
    sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(waited_samples) AS waited_samples
  FROM named
  GROUP BY remainder, target, family, type, op, born_at
), placed AS (
  SELECT *, CASE WHEN remainder IS NULL THEN least($top + 1, row_number() OVER (
    PARTITION BY remainder IS NULL ORDER BY samples DESC, object, type, op, born_at
  )) WHEN memory_samples > 0.0 THEN $top + 2 ELSE $top + 3 END AS place
  FROM cost
)
SELECT
  CASE WHEN place <= $top THEN 'tensor' WHEN place = $top + 1 THEN 'tensors' WHEN place = $top + 2 THEN 'memory'
    ELSE 'other' END AS kind,
  CASE WHEN place <= $top THEN max(label) WHEN place = $top + 2
    THEN string_agg(replace(replace(remainder, '(', ''), ')', ''), '; ' ORDER BY samples DESC, remainder) END AS label,
  CASE WHEN place <= $top THEN max(type) END AS type,
  CASE WHEN place <= $top THEN max(target) END AS target,
  CASE WHEN place <= $top THEN max(object_id) END AS object_id,
  CASE WHEN place <= $top THEN max(stalled_at) END AS waited_at,
  count(*) AS objects,
  sum(samples) AS samples,
  sum(memory_samples) AS memory_samples,
  sum(samples) / nullif(sum(sum(samples)) OVER (), 0.0) AS share,
  sum(waited_samples) / nullif(sum(sum(samples)) OVER (), 0.0) AS waited_share
FROM placed
GROUP BY place
ORDER BY place
