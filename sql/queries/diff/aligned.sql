-- Aligned work
-- Ops that all captures have, with whatever kernels they launch. Launches outside of them align by kernel, then by
-- module or range. What nothing aligns are remainders, by kernel.
SELECT m.capture, m.kernel_id, a.key, a.what, a.detail, m.value, m.variance
FROM measured m
JOIN diff_align a ON a.capture = m.capture AND a.kernel_id = m.kernel_id
