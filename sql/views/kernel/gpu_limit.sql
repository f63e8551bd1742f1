-- One compute capability: the limits of one of its multiprocessors.
--
-- Warps, blocks and bytes of shared memory are those of NVIDIA's CUDA Programming Guide, "Compute Capabilities",
-- technical specifications
-- (https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html). Units of allocation
-- are those of the CUDA toolkit's occupancy calculator (cuda_occupancy.h). Shared memory is the largest split from the
-- L1 cache: the driver chooses one that holds the blocks of the kernel.
CREATE VIEW gpu_limit (
  -- Compute capability, major.
  compute_major,
  -- Compute capability, minor.
  compute_minor,
  -- Warps.
  warps,
  -- Blocks.
  blocks,
  -- Registers of 32 bits.
  registers,
  -- Partitions of the multiprocessor. A warp lies in one of them.
  partitions,
  -- Allocation unit of registers per warp.
  register_unit,
  -- Bytes of shared memory.
  shared_bytes,
  -- Bytes of it that the driver reserves per block.
  reserved_shared_bytes,
  -- Allocation unit of shared memory per block, bytes.
  shared_unit
) AS
SELECT
  major, minor, warps, blocks, 65536, 4, 256, shared_kib * 1024, CASE WHEN major >= 8 THEN 1024 ELSE 0 END,
  CASE WHEN major >= 8 THEN 128 ELSE 256 END
FROM (VALUES
  (7, 0, 64, 32, 96), (7, 2, 64, 32, 96), (7, 5, 32, 16, 64),
  (8, 0, 64, 32, 164), (8, 6, 48, 16, 100), (8, 7, 48, 16, 164), (8, 8, 48, 16, 100), (8, 9, 48, 24, 100),
  (9, 0, 64, 32, 228),
  -- 10.1 is the first name of 11.0.
  (10, 0, 64, 32, 228), (10, 1, 48, 24, 228), (10, 3, 64, 32, 228), (11, 0, 48, 24, 228),
  (12, 0, 48, 24, 100), (12, 1, 48, 24, 100)
) AS known(major, minor, warps, blocks, shared_kib)
