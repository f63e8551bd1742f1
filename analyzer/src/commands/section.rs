//! Sections of output: each is one documented query in `sql/`.

use stallmap::library;

/// One documented query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Its name: the file's.
    pub(super) name: &'static str,
    text: &'static str,
}

/// The queries of a folder, in this order. A test of each caller compares the order with the folder.
pub(super) fn sections(package: &str, order: &[&str]) -> Vec<Section> {
    let find = |&wanted: &&str| library::queries(package).find(|(name, _)| *name == wanted);
    order.iter().filter_map(find).map(|(name, text)| Section { name, text }).collect()
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

    /// Text for a section without rows.
    pub(super) fn nothing(self) -> &'static str {
        match self.name {
            "findings" => "(no findings. Findings need samples)",
            _ => "(nothing of this kind was recorded)",
        }
    }

    /// The query with a value for each parameter, as a user can run it.
    pub(super) fn sql(self, parameters: &[(&str, u64)]) -> String {
        let text = self.text.trim_end().trim_end_matches(';').to_owned();
        let fill = |text: String, (name, value): &(&str, u64)| text.replace(name, &value.to_string());
        parameters.iter().fold(text, fill) + ";\n"
    }

    fn comment(self) -> impl Iterator<Item = &'static str> {
        self.text.lines().map_while(|line| line.strip_prefix("--")).map(str::trim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_has_a_title_and_an_explanation() {
        for package in library::QUERIES {
            for (name, text) in library::queries(package) {
                let section = Section { name, text };
                assert!(section.title().starts_with(char::is_uppercase), "{name}");
                assert!(section.doc().count() > 0, "{name}");
                // The queries of `diff` are assembled from pieces, which its tests cover.
                let is_whole = !section
                    .sql(&[("$top", 7), ("$sort", 7), ("$function", 7), ("$tensors", 7)])
                    .contains('$');
                assert!(is_whole || package == "diff", "{name}");
            }
        }
    }
}
