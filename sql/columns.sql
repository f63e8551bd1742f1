-- Columns that many views have. A view needs no comment above such a column, unless it means something else there.
columns (
  -- Recommended change.
  advice,
  -- The driver allocation, outside any tensor.
  allocation_id,
  -- Begin, nanoseconds since the Unix epoch.
  begin_ns,
  -- The line that allocated it.
  born_at,
  -- The functions inlined around it. See `access_line`.
  call_path,
  -- Count.
  count,
  -- CUDA's device ordinal.
  device_id,
  -- Element type.
  dtype,
  -- Its length, nanoseconds.
  duration_ns,
  -- End.
  end_ns,
  -- The measured fact in few words.
  fact,
  -- The kind of inefficiency.
  finding,
  -- Time that the fix takes each time it is made, nanoseconds: a copy. Null if it takes none.
  fix_ns,
  -- The function that holds the instruction.
  function_id,
  -- True if caches were flushed before each replay.
  is_cold,
  -- True for a memory stall.
  is_memory,
  -- Counted item.
  item,
  -- Its source-level name.
  kernel,
  -- The kernel.
  kernel_function_id,
  -- The launch.
  kernel_id,
  -- Kind of access: read, write, atomic, prefetch.
  kind,
  -- Launches.
  launch_count,
  -- The innermost user line around the launch.
  line,
  -- Samples of memory stalls.
  memory_samples,
  -- Its label.
  object,
  -- Its tensor_id, storage_id or allocation_id.
  object_id,
  -- The op around the launch.
  op,
  -- Uses of its result from which it pays. Null if it takes no time.
  pays_from,
  -- The instruction.
  pc,
  -- The phase of the training step.
  phase,
  -- Position in the reading order.
  position,
  -- The function of the producer.
  producer_function_id,
  -- The producer.
  producer_pc,
  -- SQL that shows its evidence.
  query,
  -- Warp requests.
  request_count,
  -- The run.
  run_id,
  -- Samples, as in the view `sample`.
  samples,
  -- Samples among these in cycles in which the scheduler issued nothing. Never added to `samples`.
  samples_not_issued,
  -- Most time that a fix saves.
  saving_high_ns,
  -- Least time that a fix saves, nanoseconds, over all launches and less its own cost. Null if unknown.
  saving_low_ns,
  -- Upper bound of samples that a fix saves.
  saving_samples,
  -- Sentence with the inefficiency and its location.
  sentence,
  -- Part of all samples.
  share,
  -- Its line in the function, outside of all inlined ones.
  source_line,
  -- Its stall reason.
  stall_reason,
  -- The storage.
  storage_id,
  -- Its subject.
  subject,
  -- The tensor.
  tensor_id,
  -- GPU time, nanoseconds. See `launch_time`.
  time_ns,
  -- Its type and shape, or size.
  type,
  -- Its warp.
  warp
)
