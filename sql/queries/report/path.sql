-- Critical path
-- The chain of kernels, copies, waits and host code that decides how long a step takes, over all steps of all ranks. path: a
-- step's time on it. saving: a step's time less, without the item. launch: from a call to the begin of its work. handover:
-- from work to the work that waited for it. return: from work to the host that waited for it. slowest: change of the path
-- in the slowest step against the median one. All rows add up to a step.
WITH slowest AS (
  SELECT run_id, program_step, row_number() OVER (PARTITION BY run_id ORDER BY max(step_ns) DESC, program_step) AS place
  FROM step_change
  GROUP BY run_id, program_step
), changed AS (
  SELECT c.run_id, c.kind, c.function_id, c.name, c.change_ns
  FROM step_change c
  JOIN slowest s ON s.run_id = c.run_id AND s.program_step = c.program_step AND s.place = 1
), steps AS (
  SELECT sum(steps) AS steps, count(*) AS runs
  FROM (SELECT run_id, count(DISTINCT coalesce(program_step, 0)) AS steps FROM critical_item GROUP BY run_id)
), item AS (
  SELECT kind, item, sum(path_ns) AS path_ns, sum(saving_ns) AS saving_ns, sum(segment_count) AS pieces
  FROM critical_path
  GROUP BY kind, item
), moved AS (
  SELECT
    CASE
      WHEN c.kind IN ('kernel', 'collective') THEN coalesce(n.short_kernel, 'kernel of no launch')
      WHEN c.kind = 'copy' THEN coalesce(c.name, 'other')
      WHEN c.kind = 'host' THEN coalesce(c.name, 'code outside of ops')
      ELSE CAST(c.kind AS VARCHAR)
    END AS item,
    c.kind, sum(c.change_ns) AS change_ns
  FROM changed c
  LEFT JOIN kernel_name n ON n.function_id = c.function_id
  GROUP BY 1, c.kind
), placed AS (
  SELECT
    i.kind, i.item, i.path_ns, i.saving_ns, i.pieces, coalesce(m.change_ns, 0) AS change_ns,
    least($top + 1, row_number() OVER (ORDER BY i.path_ns DESC, i.kind, i.item)) AS place
  FROM item i
  LEFT JOIN moved m ON m.kind = i.kind AND m.item = i.item
)
SELECT
  sum(p.path_ns) / CAST(sum(sum(p.path_ns)) OVER () AS DOUBLE) AS share,
  CAST(sum(p.path_ns) / max(s.steps) AS BIGINT) AS path_ns,
  CASE WHEN p.place <= $top THEN CAST(max(p.saving_ns) / max(s.steps) AS BIGINT) END AS saving_ns,
  CAST(sum(p.change_ns) / max(s.runs) AS BIGINT) AS slowest_ns,
  sum(p.pieces) AS pieces,
  CASE WHEN p.place <= $top THEN max(p.kind) END AS kind,
  CASE WHEN p.place <= $top THEN max(p.item) ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS item
FROM placed p
CROSS JOIN steps s
GROUP BY p.place
ORDER BY p.place
