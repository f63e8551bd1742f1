-- One launch with the ranges around it, as in `range_launch`.
CREATE VIEW launch_range (
  kernel_id,
  -- The innermost range. Null outside of ranges.
  op_id,
  -- Its name.
  range_name,
  -- The names of all ranges around the launch, outermost first. Null outside of ranges.
  names,
  -- The same as one text, with slashes between names.
  path,
  -- The interface that named the innermost range: nvtx, torch or stallmap. Null where the capture does not say.
  source,
  -- Its domain of NVTX. Null for the default domain.
  domain,
  -- Its category of NVTX.
  category,
  -- True if the ranges are those of the forward op.
  is_forward
) AS
WITH named AS (
  SELECT
    r.kernel_id,
    max(CASE WHEN r.distance = 0 THEN r.op_id END) AS op_id,
    array_agg(o.name ORDER BY r.distance DESC) AS names,
    bool_or(r.is_forward) AS is_forward
  FROM range_launch r
  JOIN op o ON o.op_id = r.op_id
  GROUP BY r.kernel_id
)
SELECT
  l.kernel_id, n.op_id, o.name, n.names, array_to_string(n.names, ' / '), g.source, g.domain, g.category, n.is_forward
FROM launch l
LEFT JOIN named n ON n.kernel_id = l.kernel_id
LEFT JOIN op o ON o.op_id = n.op_id
LEFT JOIN op_range g ON g.op_id = n.op_id
