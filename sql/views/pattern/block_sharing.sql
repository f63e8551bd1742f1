-- How far the blocks of one launch touch the same device memory, by one kind of access.
--
-- A block's footprint is the set of sectors of 32 bytes that it touches. Sums over the footprints divided by their union
-- say how often a sector is needed by different blocks: what L2, clusters or another order of blocks could save.
-- Instructions that no instrument observes are not in it.
CREATE VIEW block_sharing (
  -- The launch.
  kernel_id,
  -- What the instructions do: read, write, atomic, prefetch.
  kind,
  -- Blocks that access memory so.
  block_count,
  -- Sectors of all footprints together, each once.
  union_sectors,
  -- The sum of the footprints.
  footprint_sectors,
  -- Footprints divided by their union: 1 where no two blocks touch one sector.
  sharing,
  -- Sectors that more than one block touches.
  shared_sectors,
  -- The most blocks that touch one sector.
  most_blocks,
  -- The middle block's footprint, bytes.
  median_footprint_bytes,
  -- The largest footprint, bytes.
  largest_footprint_bytes,
  -- The part of all sectors that counts are scaled from: 1 where they are exact.
  sector_rate
) AS
WITH shared AS (
  SELECT
    kernel_id, kind, CAST(sum(sectors) AS BIGINT) AS union_sectors,
    CAST(sum(sectors * block_count) AS BIGINT) AS footprint_sectors,
    CAST(sum(CASE WHEN block_count > 1 THEN sectors ELSE 0 END) AS BIGINT) AS shared_sectors,
    max(block_count) AS most_blocks, min(sector_rate) AS sector_rate
  FROM sector_sharing
  GROUP BY kernel_id, kind
), footprint AS (
  SELECT kernel_id, kind, count(*) AS block_count, 32 * median(sectors) AS median_bytes, 32 * max(sectors) AS largest_bytes
  FROM block_footprint
  GROUP BY kernel_id, kind
)
SELECT
  s.kernel_id, s.kind, f.block_count, s.union_sectors, s.footprint_sectors,
  CAST(s.footprint_sectors AS DOUBLE) / nullif(s.union_sectors, 0), s.shared_sectors, s.most_blocks, f.median_bytes,
  f.largest_bytes, s.sector_rate
FROM shared s
JOIN footprint f ON f.kernel_id = s.kernel_id AND f.kind = s.kind
