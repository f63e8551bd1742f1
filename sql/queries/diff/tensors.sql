-- Tensors
-- Tensors by name, or by op, line and shape of their allocation. If not all captures have such a shape, or the line has
-- more than 8, by the number of dimensions. Rows in parentheses are unattributed.
WITH tensor AS (
  SELECT
    t.capture, t.tensor_id,
    CASE
      WHEN t.name IS NULL THEN coalesce(t.op || '()', 'unnamed')
      WHEN t.role IN ('gradient', 'optimizer_state') THEN replace(CAST(t.role AS VARCHAR), '_', ' ') || ' of ' || t.name
      ELSE t.name
    END AS what,
    CASE WHEN t.name IS NULL THEN coalesce(p.place, t.birth_line, '') END AS place,
    t.dtype || ' ' || t.shape AS type,
    -- A scalar counts as one dimension.
    t.dtype || ' in ' || CAST(regexp_count(split_part(t.shape, ' ', 1), 'x') + 1 AS VARCHAR) AS kind,
    t.birth_line
  FROM every.tensor_context t
  LEFT JOIN every.line_place p ON p.capture = t.capture AND p.line = t.birth_line
), shared AS (
  SELECT what, place, type, count(DISTINCT capture) AS captures, count(*) OVER (PARTITION BY what, place) AS types
  FROM tensor
  WHERE place IS NOT NULL
  GROUP BY what, place, type
)
SELECT
  m.capture, m.kernel_id,
  CASE
    WHEN m.charge <> 'tensor' THEN m.charge
    WHEN t.place IS NULL THEN 'named ' || t.what
    ELSE t.what || ' at ' || t.place || ' ' || CASE WHEN s.captures = $captures AND s.types <= 8 THEN t.type ELSE t.kind END
  END AS key,
  CASE m.charge
    WHEN 'tensor' THEN t.what
    WHEN 'self' THEN '(not memory)'
    WHEN 'no producer' THEN '(no matching access)'
    WHEN 'no tensor' THEN '(memory outside tensors)'
    WHEN 'no samples' THEN '(launches without samples)'
    ELSE '(' || m.charge || ')'
  END AS what,
  coalesce(t.type || coalesce(' at ' || t.birth_line, ''), '') AS detail,
  m.value, m.variance
FROM measured m
LEFT JOIN tensor t ON t.capture = m.capture AND t.tensor_id = m.tensor_id
LEFT JOIN shared s ON s.what = t.what AND s.place = t.place AND s.type = t.type
