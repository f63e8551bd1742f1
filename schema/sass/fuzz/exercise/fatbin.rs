//! Reads bytes as fatbins.

use stallmap_sass::fatbin::Fatbins;

/// Any bytes: no panic, termination, and no more bytes than compression allows.
pub(crate) fn fatbin(bytes: &[u8]) {
    let Ok(fatbins) = Fatbins::find(bytes) else { return };
    for entry in fatbins.entries().flatten() {
        let decompressed = entry.bytes().map_or(0, |decompressed| decompressed.len());
        assert!(decompressed <= bytes.len().saturating_mul(1024));
    }
}
