-- Launches that write numbers that are not finite although they read none: NaN and infinity begin here.
--
-- Only bundled launches count, as in `access_value`. A launch that reads values which are not known may have read such a number:
-- `unknown_count` says how many.
CREATE VIEW nonfinite_origin (
  kernel_id,
  kernel,
  line,
  op,
  -- The tensor into which it writes most of them.
  tensor_id,
  object,
  -- Values that it writes and that are not a number, each time.
  nan_count,
  -- Infinite ones.
  infinite_count,
  -- All values that it writes and that are known.
  written_count,
  -- Elements that it reads whose value is not known.
  unknown_count
) AS
WITH summed AS (
  SELECT
    kernel_id, kind = 'read' AS is_read, tensor_id, object, sum(nan_count) AS nan_count,
    sum(infinite_count) AS infinite_count, sum(value_count) AS value_count, sum(unknown_count) AS unknown_count
  FROM value_count
  GROUP BY kernel_id, kind = 'read', tensor_id, object
), launched AS (
  SELECT
    kernel_id,
    sum(CASE WHEN is_read THEN nan_count + infinite_count ELSE 0 END) AS read_count,
    sum(CASE WHEN is_read THEN unknown_count ELSE 0 END) AS unknown_count,
    sum(CASE WHEN is_read THEN 0 ELSE nan_count END) AS nan_count,
    sum(CASE WHEN is_read THEN 0 ELSE infinite_count END) AS infinite_count,
    sum(CASE WHEN is_read THEN 0 ELSE value_count END) AS written_count,
    first_value(tensor_id ORDER BY is_read, nan_count + infinite_count DESC, tensor_id) AS tensor_id,
    first_value(object ORDER BY is_read, nan_count + infinite_count DESC, tensor_id) AS object
  FROM summed
  GROUP BY kernel_id
)
SELECT
  n.kernel_id, l.kernel, line_label(l.line, l.forward_line), l.op, n.tensor_id, n.object, n.nan_count, n.infinite_count,
  n.written_count, n.unknown_count
FROM launched n
JOIN launch_context l ON l.kernel_id = n.kernel_id
WHERE n.read_count = 0 AND n.nan_count + n.infinite_count > 0
