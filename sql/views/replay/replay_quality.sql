-- One launch that was selected for replay, and its outcome.
CREATE VIEW replay_quality (
  kernel_id,
  -- The kernel.
  function_id,
  kernel,
  -- Outcome: not bundled, not replayed, else the worst of its repeats in all runs: different (it left other memory than
  -- the launch), failed, unstable (other memory only in bytes that may vary: order of atomics, clocks), verified (the
  -- same memory, each time).
  outcome,
  -- Reason why it is not a bundle. Null if it is one.
  refusal,
  -- Source of its memory: observed, derived.
  method,
  -- Pages of 4096 bytes that it reads or writes.
  page_count,
  -- Pages that it writes.
  written_page_count,
  -- Bytes of those pages, and of its modules' variables.
  bytes,
  -- Bytes of the pages whose contents no earlier bundle had.
  new_bytes,
  -- Runs that replayed it, under any instrument.
  run_count,
  -- Replays of it, in all runs.
  repeat_count,
  -- Replays that left the same memory as the launch.
  verified_count,
  -- Replays with other memory only in bytes that may vary.
  unstable_count,
  -- Replays that left other memory.
  different_count,
  -- Replays that failed.
  failed_count,
  -- Replays with memory at other addresses than recorded.
  translated_count,
  -- Maximum of different pages in one of its replays.
  different_page_count,
  -- Median time of its replays without an instrument, nanoseconds.
  duration_ns,
  -- Error of one of its replays, if any.
  detail
) AS
WITH replayed AS (
  SELECT
    kernel_id,
    count(DISTINCT run_id) AS runs,
    count(*) AS repeats,
    sum(CASE WHEN result = 'verified' THEN 1 ELSE 0 END) AS verified,
    sum(CASE WHEN result = 'unstable' THEN 1 ELSE 0 END) AS unstable,
    sum(CASE WHEN result = 'different' THEN 1 ELSE 0 END) AS different,
    sum(CASE WHEN result = 'failed' THEN 1 ELSE 0 END) AS failed,
    sum(CASE WHEN is_translated THEN 1 ELSE 0 END) AS translated,
    max(different_page_count) AS different_pages,
    median(CASE WHEN result IN ('verified', 'unstable') THEN CAST(duration_ns AS DOUBLE) END) AS duration_ns,
    min(detail) AS detail
  FROM replay
  GROUP BY kernel_id
), symbol AS (
  SELECT kernel_id, sum(size_bytes) AS bytes FROM bundle_symbol GROUP BY kernel_id
)
SELECT
  b.kernel_id, l.function_id, f.demangled_name,
  CASE
    WHEN b.refusal IS NOT NULL THEN 'not bundled'
    WHEN r.kernel_id IS NULL THEN 'not replayed'
    WHEN r.different > 0 THEN 'different'
    WHEN r.failed > 0 THEN 'failed'
    WHEN r.unstable > 0 THEN 'unstable'
    ELSE 'verified'
  END,
  b.refusal, CAST(b.method AS VARCHAR), b.page_count, b.written_page_count,
  b.page_count * 4096 + coalesce(s.bytes, 0), b.new_page_count * 4096,
  coalesce(r.runs, 0), coalesce(r.repeats, 0), coalesce(r.verified, 0), coalesce(r.unstable, 0),
  coalesce(r.different, 0), coalesce(r.failed, 0), coalesce(r.translated, 0), r.different_pages, r.duration_ns, r.detail
FROM bundle b
LEFT JOIN launch l ON l.kernel_id = b.kernel_id
LEFT JOIN function f ON f.function_id = l.function_id
LEFT JOIN replayed r ON r.kernel_id = b.kernel_id
LEFT JOIN symbol s ON s.kernel_id = b.kernel_id
