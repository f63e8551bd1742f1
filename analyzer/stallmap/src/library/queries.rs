//! The index of the queries that commands run: each is one documented file in `sql/queries/<command>`.

/// One documented query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandQuery {
    /// Its name: the file's.
    pub name: &'static str,
    /// The command that it is for.
    command: &'static str,
    text: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/queries.rs"));

impl CommandQuery {
    /// A query of the index.
    const fn new(command: &'static str, name: &'static str, text: &'static str) -> Self {
        Self { name, command, text }
    }

    /// True if it reads its views whole. Others ask for one kernel or for some tensors.
    pub fn is_whole(self) -> bool {
        ["diff", "report", "top", "tree", "verdict"].contains(&self.command)
    }

    /// The file's text.
    pub const fn text(self) -> &'static str {
        self.text
    }

    /// The file's text without the comment above it.
    pub fn body(self) -> String {
        let lines: Vec<&str> = self.text.lines().skip_while(|line| line.starts_with("--")).collect();
        lines.join("\n")
    }

    /// The first line of the file's comment.
    pub fn title(self) -> &'static str {
        self.comment().next().unwrap_or(self.name).trim_end_matches('.')
    }

    /// The other lines of the file's comment.
    pub fn doc(self) -> impl Iterator<Item = &'static str> {
        self.comment().skip(1).filter(|line| !line.is_empty())
    }

    /// Text for a section without rows.
    pub fn nothing(self) -> &'static str {
        match self.name {
            "findings" => "(no findings)",
            _ => "(nothing of this kind was recorded)",
        }
    }

    /// The query with a value for each parameter, as a user can run it.
    pub fn sql(self, parameters: &[(&str, u64)]) -> String {
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
    fn every_query_has_a_title_and_an_explanation() {
        for &(command, query) in ALL {
            assert!(query.title().starts_with(char::is_uppercase), "{}", query.name);
            assert!(query.doc().count() > 0, "{}", query.name);
            // The queries of `diff` and those with a filter are assembled from pieces, which their tests cover.
            let names = [
                "$top",
                "$sort",
                "$phases",
                "$function",
                "$tensors",
                "$kernel",
                "$block",
                "$pc",
                "$low",
                "$past",
                "$filter",
            ];
            let is_whole = !query.sql(&names.map(|name| (name, 7))).contains('$');
            assert!(is_whole || ["diff", "filter"].contains(&command), "{}", query.name);
        }
    }
}
