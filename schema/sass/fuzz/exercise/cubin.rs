//! Reading of bytes as a cubin, with every query of the crate.

use stallmap_sass::cubin::Cubin;
use stallmap_sass::line::LineTable;
use stallmap_sass::slice::analysis::analyze;

/// More code takes longer than it finds.
const MAX_CODE: usize = 1 << 16;

/// Whatever the bytes are: no panic, and offsets that lie in the code.
pub(crate) fn cubin(bytes: &[u8]) {
    let Ok(cubin) = Cubin::read(bytes) else { return };
    let lines = LineTable::read(bytes, &cubin).unwrap_or_default();
    let mut left = MAX_CODE;
    for (index, section) in cubin.sections.iter().enumerate() {
        let Some(code) = bytes.get(section.bytes.clone()) else { panic!("a section outside the file") };
        if code.len() > left {
            continue;
        }
        left -= code.len();
        let length = u32::try_from(code.len()).unwrap_or(u32::MAX);
        for offset in (0..length.saturating_add(32)).step_by(16) {
            lines.frames(index, offset).for_each(drop);
        }
        let Ok(analysis) = analyze(code, section, cubin.sm) else { continue };
        assert_eq!(analysis.instructions.len(), code.len() / 16);
        assert!(analysis.blocks.iter().all(|block| block.first <= block.last && block.last < length));
        for found in &analysis.producers {
            assert!(found.waiter < length && found.producer < length, "{found:?} in {length} bytes");
            assert!((0.0..=1.0 + 1e-9).contains(&found.weight), "{found:?}");
        }
    }
}
