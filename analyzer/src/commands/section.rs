//! Sections of the report: each is one documented query in `sql/report/`.

use stallmap::library;

/// The sections in the order in which they are printed. Coverage is always first, then what was lost.
const ORDER: &[&str] = &["coverage", "losses", "tensors", "kernels", "lines", "ops"];

/// A section of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Its name: the file's.
    pub(super) name: &'static str,
    text: &'static str,
}

/// Every section, in order.
pub(super) fn sections() -> Vec<Section> {
    let find = |&wanted: &&str| library::reports().find(|(name, _)| *name == wanted);
    ORDER.iter().filter_map(find).map(|(name, text)| Section { name, text }).collect()
}

impl Section {
    /// The first line of the file's comment.
    pub(super) fn title(self) -> &'static str {
        self.comment().next().unwrap_or(self.name).trim_end_matches('.')
    }

    /// The other lines of the file's comment.
    pub(super) fn doc(self) -> impl Iterator<Item = &'static str> {
        self.comment().skip(1).filter(|line| !line.is_empty())
    }

    /// The query that shows this many rows, as a user can run it.
    pub(super) fn sql(self, top: u32) -> String {
        let text = self.text.trim_end().trim_end_matches(';');
        text.replace("$top", &top.to_string()) + ";\n"
    }

    fn comment(self) -> impl Iterator<Item = &'static str> {
        self.text.lines().map_while(|line| line.strip_prefix("--")).map(str::trim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_of_the_folder_has_its_place() {
        let mut names: Vec<_> = library::reports().map(|(name, _)| name).collect();
        let mut ordered = ORDER.to_vec();
        names.sort_unstable();
        ordered.sort_unstable();
        assert_eq!(names, ordered);
    }

    #[test]
    fn every_section_has_a_title_and_an_explanation() {
        for section in sections() {
            assert!(section.title().starts_with(char::is_uppercase), "{}", section.name);
            assert!(section.doc().count() > 0, "{}", section.name);
            assert!(!section.sql(7).contains("$top"), "{}", section.name);
        }
    }
}
