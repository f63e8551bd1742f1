-- Which parts of a tensor are accessed, and which cost most?
-- The heat map of a tensor has up to 64 by 64 bins. Here its rows make four bands. Even bands mean that no part is hot:
-- neither a cache nor another order of rows would help. Insert another tensor_id from the first question.
-- Capture: inference_views
SELECT
  kind, c.row * 4 / c.row_count AS band,
  CAST(min(c.row) * c.row_extent / c.row_count AS BIGINT) AS first_row,
  CAST((max(c.row) + 1) * c.row_extent / c.row_count - 1 AS BIGINT) AS last_row,
  sum(c.touches) AS touches, sum(c.sectors) AS sectors, round(sum(c.blamed_samples), 1) AS samples
FROM tensor_cell c
WHERE c.tensor_id = 1
GROUP BY kind, band, c.row_extent, c.row_count
ORDER BY kind, band
