-- Which accesses to memory are wrong?
-- Two kinds of one defect: blocks that write what other blocks read, and elements outside of a tensor. Each row has the line of the
-- kernel and an example. A race ends with atomics, with one owner per element, or with two kernels.
-- Capture: sanitize/torch
SELECT defect, source_line, object, element, count, fact
FROM wrong_access
WHERE defect IN ('block_race', 'out_of_bounds')
ORDER BY defect, source_line, fact
LIMIT 8
