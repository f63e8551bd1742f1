-- One kernel whose blocks may be ordered: it has atomics of device memory, fences of the GPU, or barriers of clusters.
CREATE VIEW ordered_kernel (
  -- The kernel.
  function_id,
  -- An instruction that may order its blocks.
  instruction
) AS
SELECT f.kernel_function_id, min(i.text)
FROM function_code f
JOIN instruction i ON i.function_id = f.function_id
WHERE i.memory_kind IN ('atomic', 'reduction') AND i.memory_space IN ('global', 'generic')
  OR i.mnemonic = 'MEMBAR' AND i.text NOT LIKE '%.CTA%'
  OR i.mnemonic = 'CCTL' AND i.class = 'sync'
  OR i.mnemonic LIKE 'UCGABAR%'
GROUP BY f.kernel_function_id
