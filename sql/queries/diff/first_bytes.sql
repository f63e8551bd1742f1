-- Content of pages
-- The bytes of each page of one bundled launch, before it.
SELECT p.address, encode(c.bytes, 'hex') AS bytes
FROM bundle_page p
JOIN bundle_content c ON c.content_id = p.content_id
WHERE p.kernel_id = $kernel
ORDER BY p.address
