-- Is a view that is not contiguous the culprit?
-- Tensors with strides of their own against all others: what part of the samples that tensors bear they have.
-- Capture: inference_views
SELECT
  CASE WHEN t.shape LIKE '% strides %' THEN 'not contiguous' ELSE 'contiguous' END AS layout,
  count(*) AS tensors, round(sum(t.samples), 1) AS samples,
  round(100.0 * sum(t.samples) / sum(sum(t.samples)) OVER (), 1) AS percent_of_tensors,
  first_value(coalesce(t.name, 'result of ' || t.op) || ' ' || t.shape ORDER BY t.samples DESC) AS costliest
FROM tensor_stall_cost t
WHERE t.charge = 'tensor'
GROUP BY layout
ORDER BY samples DESC
