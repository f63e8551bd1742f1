//! Details of kernels, copies and fills: words of the form `grid:8,1,1`, with spaces between them.

use stallmap_schema::word::CopyKind;

/// The value of a word.
pub(super) fn word<'a>(details: &'a str, key: &str) -> Option<&'a str> {
    details.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix(':'))
}

/// A number.
pub(super) fn number<T: std::str::FromStr>(details: &str, key: &str) -> Option<T> {
    word(details, key)?.parse().ok()
}

/// Sizes in x, y and z.
pub(super) fn extent(details: &str, key: &str) -> Option<[u32; 3]> {
    let mut parts = word(details, key)?.split(',').map(|part| part.parse().ok());
    let sizes = [parts.next()??, parts.next()??, parts.next()??];
    Some(sizes).filter(|sizes| parts.next().is_none() && sizes.iter().all(|size| *size > 0))
}

/// The direction of a copy, by the kinds of its two sides. Without them, by its name.
pub(super) fn direction(details: &str, name: &str) -> CopyKind {
    let side = |key| match word(details, key)? {
        "device" | "array" => Some(true),
        "host" | "pinned" | "pageable" => Some(false),
        _ => None,
    };
    match (side("kind_src"), side("kind_dst")) {
        (Some(false), Some(true)) => CopyKind::HostToDevice,
        (Some(true), Some(false)) => CopyKind::DeviceToHost,
        (Some(true), Some(true)) => CopyKind::DeviceToDevice,
        _ if name.ends_with("H2D") => CopyKind::HostToDevice,
        _ if name.ends_with("D2H") => CopyKind::DeviceToHost,
        _ if name.ends_with("D2D") || name.ends_with("P2P") => CopyKind::DeviceToDevice,
        _ => CopyKind::Other,
    }
}

/// The memory of both sides of a copy, in XLA's words.
pub(super) fn sides(details: &str) -> Option<String> {
    Some(format!("{} -> {}", word(details, "kind_src")?, word(details, "kind_dst")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_their_keys() {
        let kernel =
            "regs:168 static_shared:0 dynamic_shared:231424 grid:128,1,1 block:384,1,1 occ_pct:18.75";
        assert_eq!(number(kernel, "regs"), Some(168));
        assert_eq!((extent(kernel, "grid"), extent(kernel, "block")), (Some([128, 1, 1]), Some([384, 1, 1])));
        assert_eq!((extent(kernel, "regs"), extent("grid:1,2", "grid")), (None, None));
        assert_eq!(number::<u32>(kernel, "shared"), None);
    }

    #[test]
    fn directions_are_those_of_both_sides() {
        let copy = "kind_src:device kind_dst:pinned size:4 dest:0 async:1";
        assert_eq!(direction(copy, "MemcpyD2H"), CopyKind::DeviceToHost);
        assert_eq!((sides(copy).as_deref(), sides("size:4")), (Some("device -> pinned"), None));
        assert_eq!(direction("kind_src:unknown kind_dst:unknown", "MemcpyH2D"), CopyKind::HostToDevice);
        assert_eq!(direction("", "copy"), CopyKind::Other);
    }
}
