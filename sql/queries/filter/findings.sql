-- Some findings
-- Findings of the kernels, lines and ops of a filter.
SELECT *
FROM finding
WHERE $filter
