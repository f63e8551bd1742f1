//! Rows that came twice.

/// Rows sorted by their key. Of rows with one key the last.
pub(crate) fn once<T, K: Ord>(mut rows: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    rows.sort_by_key(|row| key(row));
    rows.dedup_by(|later, row| {
        let is_same = key(later) == key(row);
        if is_same {
            std::mem::swap(later, row);
        }
        is_same
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_of_a_key_stays() {
        let rows = vec![(2, 'a'), (1, 'b'), (2, 'c'), (1, 'd'), (3, 'e'), (1, 'f')];
        assert_eq!(once(rows, |row| row.0), [(1, 'f'), (2, 'c'), (3, 'e')]);
    }
}
