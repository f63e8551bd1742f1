-- Sharing of device memory between the blocks of one launch, by one kind of access.
--
-- A block's footprint is the set of 32-byte sectors that it touches. The sum of the footprints divided by their union
-- is the number of blocks that need a sector, on average: the potential of L2, clusters or another order of blocks.
-- Instructions that no instrument observes are missing. Where the capture holds the requests of a sample of blocks
-- (`launch_access`), counts of sectors that blocks share are null, and footprints are theirs.
CREATE VIEW block_sharing (
  kernel_id,
  -- Kind of access of the instructions: read, write, atomic, prefetch.
  kind,
  -- Blocks with such accesses.
  block_count,
  -- Sectors of all footprints together, each once.
  union_sectors,
  -- The sum of the footprints.
  footprint_sectors,
  -- Sum of the footprints divided by their union: 1 if no two blocks share a sector.
  sharing,
  -- Sectors that more than one block touches.
  shared_sectors,
  -- Maximum of blocks that touch one sector.
  most_blocks,
  -- The median footprint of a block, bytes.
  median_footprint_bytes,
  -- The largest footprint, bytes.
  largest_footprint_bytes,
  -- Sampled part of all sectors, from which counts are scaled: 1 if they are exact.
  sector_rate
) AS
WITH shared AS (
  SELECT
    h.kernel_id, h.kind, NOT bool_or(a.is_sampled) AS is_whole, CAST(sum(h.sectors) AS BIGINT) AS union_sectors,
    CAST(sum(h.sectors * h.block_count) AS BIGINT) AS footprint_sectors,
    CAST(sum(CASE WHEN h.block_count > 1 THEN h.sectors ELSE 0 END) AS BIGINT) AS shared_sectors,
    max(h.block_count) AS most_blocks, min(h.sector_rate) AS sector_rate
  FROM sector_sharing h
  JOIN launch_access a ON a.kernel_id = h.kernel_id
  GROUP BY h.kernel_id, h.kind
), footprint AS (
  SELECT kernel_id, kind, count(*) AS block_count, 32 * median(sectors) AS median_bytes, 32 * max(sectors) AS largest_bytes
  FROM block_footprint
  GROUP BY kernel_id, kind
)
SELECT
  s.kernel_id, s.kind, f.block_count, CASE WHEN s.is_whole THEN s.union_sectors END,
  CASE WHEN s.is_whole THEN s.footprint_sectors END,
  CASE WHEN s.is_whole THEN CAST(s.footprint_sectors AS DOUBLE) / nullif(s.union_sectors, 0) END,
  CASE WHEN s.is_whole THEN s.shared_sectors END, CASE WHEN s.is_whole THEN s.most_blocks END, f.median_bytes,
  f.largest_bytes, s.sector_rate
FROM shared s
JOIN footprint f ON f.kernel_id = s.kernel_id AND f.kind = s.kind
