-- One launch's work, as hardware counters that add up over launches. See `launch_counter`.
--
-- Null if a counter was not measured. Counters come from several passes, each a separate execution. Only the first may
-- have to fetch the kernel's code, which a cache flush does not evict. The counters of the first pass (DRAM bytes,
-- time, warps) include the code fetch, later ones do not. This matters for launches of a few microseconds.
CREATE VIEW launch_work (
  kernel_id,
  -- Its time on the GPU while it was measured, nanoseconds.
  duration_ns,
  -- Bytes read from DRAM, including the kernel's code and some kilobytes of the measurement.
  dram_read_bytes,
  -- Bytes written to DRAM.
  dram_write_bytes,
  -- DRAM's peak bytes in that time, at the clock of the measurement.
  dram_peak_bytes,
  -- Sectors of 32 bytes that hit L2, for all clients of L2, including some 800 of the measurement.
  l2_hit_sectors,
  -- Sectors that missed L2.
  l2_miss_sectors,
  -- Sectors looked up in L1.
  l1_sectors,
  -- Sectors that hit L1.
  l1_hit_sectors,
  -- Sectors of global loads.
  load_sectors,
  -- Global loads, by warp.
  load_requests,
  -- Sectors of global stores.
  store_sectors,
  -- Global stores, by warp.
  store_requests,
  -- Bank conflicts of shared memory.
  shared_conflicts,
  -- Wavefronts of local memory: spilled registers, and arrays of threads.
  local_wavefronts,
  -- Cycles that warps spent on multiprocessors, summed over warps.
  active_warp_cycles,
  -- The same if every multiprocessor were full while it had a warp.
  warp_slot_cycles,
  -- Cycles in which a multiprocessor had a warp, summed over multiprocessors.
  sm_active_cycles,
  -- Elapsed cycles, summed over multiprocessors.
  sm_elapsed_cycles,
  -- Cycles in which a scheduler had a warp, summed over schedulers. A multiprocessor has four.
  scheduler_active_cycles,
  -- Cycles among these in which a scheduler's tensor core worked.
  tensor_active_cycles,
  -- Cycles among these in which a scheduler issued an instruction.
  issue_active_cycles,
  -- Warp instructions executed.
  instructions,
  -- Warp instructions issued, including reissues.
  issued_instructions,
  -- Cycles that warps spent on multiprocessors in the pass that compared them with the instructions issued.
  issued_warp_cycles,
  -- Thread instructions executed.
  thread_instructions
) AS
SELECT
  kernel_id,
  max(CASE WHEN metric = 'gpu__time_duration.sum' THEN value END),
  coalesce(
    max(CASE WHEN metric = 'dram__bytes_read.sum' THEN value END),
    max(CASE WHEN metric = 'dram__bytes_op_read.sum' THEN value END)
  ),
  coalesce(
    max(CASE WHEN metric = 'dram__bytes_write.sum' THEN value END),
    max(CASE WHEN metric = 'dram__bytes_op_write.sum' THEN value END)
  ),
  max(CASE WHEN metric = 'dram__bytes.sum.peak_sustained_elapsed.per_second' THEN value END)
    * max(CASE WHEN metric = 'gpu__time_duration.sum' THEN value END) / 1e9,
  max(CASE WHEN metric = 'lts__t_sectors_lookup_hit.sum' THEN value END),
  max(CASE WHEN metric = 'lts__t_sectors_lookup_miss.sum' THEN value END),
  max(CASE WHEN metric = 'l1tex__t_sectors.sum' THEN value END),
  max(CASE WHEN metric = 'l1tex__t_sectors_lookup_hit.sum' THEN value END),
  max(CASE WHEN metric = 'l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum' THEN value END),
  max(CASE WHEN metric = 'l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum' THEN value END),
  max(CASE WHEN metric = 'l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum' THEN value END),
  max(CASE WHEN metric = 'l1tex__t_requests_pipe_lsu_mem_global_op_st.sum' THEN value END),
  max(CASE WHEN metric = 'l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum' THEN value END),
  max(CASE WHEN metric = 'l1tex__t_output_wavefronts_pipe_lsu_mem_local.sum' THEN value END),
  max(CASE WHEN metric = 'sm__warps_active.sum' THEN value END),
  max(CASE WHEN metric = 'sm__cycles_active.sum' THEN value END)
    * max(CASE WHEN metric = 'sm__warps_active.avg.peak_sustained' THEN value END),
  max(CASE WHEN metric = 'sm__cycles_active.sum' THEN value END),
  max(CASE WHEN metric = 'sm__cycles_elapsed.sum' THEN value END),
  max(CASE WHEN metric = 'smsp__cycles_active.sum' THEN value END),
  max(CASE WHEN metric = 'smsp__pipe_tensor_cycles_active.sum' THEN value END),
  max(CASE WHEN metric = 'smsp__issue_active.sum' THEN value END),
  max(CASE WHEN metric = 'smsp__inst_executed.sum' THEN value END),
  max(CASE WHEN metric = 'smsp__inst_issued.sum' THEN value END),
  max(CASE WHEN metric = 'smsp__average_warp_latency_per_inst_issued.ratio' THEN value END)
    * max(CASE WHEN metric = 'smsp__inst_issued.sum' THEN value END),
  max(CASE WHEN metric = 'smsp__thread_inst_executed.sum' THEN value END)
FROM launch_counter
GROUP BY kernel_id
