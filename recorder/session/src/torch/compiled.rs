//! Facts about compiled code: the operations that a line of generated code computes, and compiled Triton kernels.
//!
//! Both arrive as UTF-8 text whose fields are ended by zero bytes. Origins: normalized file, qualified function, first
//! line and line of the generated frame. Then for each operation, the one that stands for the kernel first: its name,
//! its phase or nothing, the forward operation or nothing, the module's path or nothing, the hash of its stack as a
//! signed number or nothing, its weight. A kernel: the five columns of `triton_kernel`.

use stallmap_schema::hash::frame_id;
use stallmap_schema::id::{FrameId, PystatesHash};
use stallmap_schema::tables::compiled::{CompiledOrigin, TritonKernel};
use stallmap_schema::word::Phase;

use super::recorded::RecordedRow;

/// The rows of a text of origins. `None` if it is not one.
pub fn origins(text: &str) -> Option<Vec<RecordedRow>> {
    let fields: Vec<&str> = text.strip_suffix('\0')?.split('\0').collect();
    let ([file, function, first_line, line], rest) = fields.split_first_chunk()?;
    let frame_id = frame_id(file, function, first_line.parse().ok()?, line.parse().ok()?);
    let (operations, rest) = rest.as_chunks::<6>();
    if !rest.is_empty() {
        return None;
    }
    (0..).zip(operations).map(|(rank, fields)| origin(frame_id, rank, fields)).collect()
}

fn origin(
    frame_id: FrameId,
    rank: u32,
    &[op, phase, forward_op, module_path, state, weight]: &[&str; 6],
) -> Option<RecordedRow> {
    let optional = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let phase = match phase {
        "" => None,
        word => {
            Some([Phase::Forward, Phase::Backward, Phase::Optimizer].into_iter().find(|p| p.word() == word)?)
        }
    };
    let pystates_hash = match state {
        "" => None,
        number => Some(PystatesHash(number.parse::<i64>().ok()?.cast_unsigned())),
    };
    let weight = weight.parse().ok().filter(|weight| (0.0..=1.0).contains(weight))?;
    Some(RecordedRow::Origin(CompiledOrigin {
        frame_id,
        rank,
        op: op.to_owned(),
        phase,
        forward_op: optional(forward_op),
        module_path: optional(module_path),
        pystates_hash,
        weight,
    }))
}

/// The row of a text of a kernel. `None` if it is not one.
pub fn kernel(text: &str) -> Option<Vec<RecordedRow>> {
    let fields: Vec<&str> = text.strip_suffix('\0')?.split('\0').collect();
    let &[name, file, line, signature, configuration] = fields.as_slice() else { return None };
    Some(vec![RecordedRow::Kernel(TritonKernel {
        name: name.to_owned(),
        file: file.to_owned(),
        line: line.parse().ok()?,
        signature: signature.to_owned(),
        configuration: configuration.to_owned(),
    })])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: &str = "ab/cab.py\0Runner.call\x00100\x00120\0";

    #[test]
    fn origins_have_the_identity_of_their_line() {
        let text = format!(
            "{FRAME}aten::mm.default\0backward\0aten::addmm.default\0h.1\0-2\x000.75\0aten::add\0\0\0\0\x000.25\0"
        );
        let rows = origins(&text).unwrap();
        let [RecordedRow::Origin(first), RecordedRow::Origin(second)] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!(first.frame_id, frame_id("ab/cab.py", "Runner.call", 100, 120));
        assert_eq!((first.rank, first.phase, first.weight), (0, Some(Phase::Backward), 0.75));
        assert_eq!(first.pystates_hash, Some(PystatesHash(u64::MAX - 1)));
        assert_eq!(
            (first.forward_op.as_deref(), first.module_path.as_deref()),
            (Some("aten::addmm.default"), Some("h.1"))
        );
        assert_eq!((second.rank, second.phase, second.pystates_hash), (1, None, None));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "a\0",
            "f\0g\0one\x002\0",
            "f\0g\x001\x002\0op\0sideways\0\0\0\x001\0",
            "f\0g\x001\x002\0op\0\0\0\0\x00NaN\0",
        ] {
            assert_eq!(origins(text), None, "{text:?}");
        }
        assert_eq!(kernel("k\0f.py\0here\0s\0c\0"), None);
        assert!(kernel("k\0f.py\x003\0s\0\0").is_some());
    }
}
