-- Pages of bundles
-- Each page of a bundled launch, with hashes of its content before the launch and after it.
SELECT p.kernel_id, p.address, c.hash, p.hash_after
FROM bundle_page p
JOIN bundle_content c ON c.content_id = p.content_id
ORDER BY p.kernel_id, p.address
