//! Length check of cubins: the driver reads a cubin by its headers, without a length.

/// Bytes of the header of a 64-bit ELF file.
const HEADER_BYTES: usize = 64;
/// Type of sections that take no bytes of the file.
const NO_BITS: u32 = 8;

/// Reports the fault of a file that is not a 64-bit ELF file, or that ends before something that its headers name.
pub fn check_whole(file: &[u8]) -> Result<(), String> {
    if file.len() < HEADER_BYTES || !file.starts_with(b"\x7fELF\x02\x01") {
        return Err("it is not an ELF file".to_owned());
    }
    let tables = [("segments", 32, 54, 56, 56), ("sections", 40, 58, 60, 64)];
    for (what, start, size, count, least) in tables {
        let (start, size, count) = (number(file, start, 8), number(file, size, 2), number(file, count, 2));
        let cut = || format!("it ends before its {what}");
        if count > 0 && size < least {
            return Err(format!("its table of {what} is malformed"));
        }
        let table = part(file, start, size * count).ok_or_else(cut)?;
        let entries = table.chunks_exact(usize::try_from(size.max(1)).unwrap_or(1));
        if count > 0 && !entries.into_iter().all(|entry| is_inside(file, entry, what == "sections")) {
            return Err(cut());
        }
    }
    Ok(())
}

/// True if the thing that an entry of a table describes is in the file.
fn is_inside(file: &[u8], entry: &[u8], is_section: bool) -> bool {
    if is_section {
        number(entry, 4, 4) == u64::from(NO_BITS)
            || part(file, number(entry, 24, 8), number(entry, 32, 8)).is_some()
    } else {
        part(file, number(entry, 8, 8), number(entry, 32, 8)).is_some()
    }
}

fn part(file: &[u8], start: u64, bytes: u64) -> Option<&[u8]> {
    let end = usize::try_from(start.checked_add(bytes)?).ok()?;
    file.get(usize::try_from(start).ok()?..end)
}

/// A number, little endian; 0 where there is none.
fn number(bytes: &[u8], start: usize, size: usize) -> u64 {
    let bytes = bytes.get(start..start + size).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CUBIN: &[u8] = include_bytes!("../../../schema/testkit/src/tiny.cubin");

    #[test]
    fn a_whole_cubin_is_whole_and_a_shorter_one_is_not() {
        assert_eq!(check_whole(CUBIN), Ok(()));
        assert_eq!(check_whole(b"text"), Err("it is not an ELF file".to_owned()));
        let cut = &CUBIN[..CUBIN.len() - 1];
        assert_eq!(check_whole(cut), Err("it ends before its segments".to_owned()));
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_answer(at in 0..CUBIN.len(), bytes in prop::collection::vec(any::<u8>(), 0..32)) {
            let mut file = CUBIN.to_vec();
            for (target, byte) in file.iter_mut().skip(at).zip(bytes) {
                *target = byte;
            }
            // The test is that nothing panics.
            drop(check_whole(&file));
            drop(check_whole(&file[at..]));
        }
    }
}
