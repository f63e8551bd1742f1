-- Tensor that filled the shared memory that an instruction of a launch reads: P(tensor | launch, function, pc).
--
-- By the copies and loads of `shared_fill` and the memory that these read in the launch. The shares of an instruction add
-- up to 1, or to less where the content was computed or the memory of a fill is not known.
CREATE VIEW shared_source (
  kernel_id,
  function_id,
  -- The instruction that reads shared memory.
  pc,
  -- copy, load, or computed (from loads of the tensor), as in `shared_fill`.
  kind,
  -- Target of the fill, as in `pc_tensor_share`.
  target,
  storage_id,
  tensor_id,
  allocation_id,
  -- Its share.
  share
) AS
SELECT
  t.kernel_id, f.function_id, f.pc, f.kind, t.target, t.storage_id, t.tensor_id, t.allocation_id, sum(f.share * t.share)
FROM shared_fill f
JOIN pc_tensor_share t ON t.function_id = f.fill_function_id AND t.pc = f.fill_pc
WHERE t.storage_id IS NOT NULL OR t.allocation_id IS NOT NULL
GROUP BY t.kernel_id, f.function_id, f.pc, f.kind, t.target, t.storage_id, t.tensor_id, t.allocation_id
