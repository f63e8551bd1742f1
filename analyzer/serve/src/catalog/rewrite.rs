//! Statements about the catalog, in the form that the engine reads. psql's `\d` and most tools write forms that it lacks.

use stallmap::lexer::{self, SqlToken, TokenKind};

/// Tables of the catalog that are known, also without their schema.
const TABLES: [&str; 11] = [
    "pg_am",
    "pg_attrdef",
    "pg_attribute",
    "pg_class",
    "pg_database",
    "pg_description",
    "pg_namespace",
    "pg_roles",
    "pg_settings",
    "pg_type",
    "pg_user",
];
/// Tables of the catalog about things that captures never have. A statement about them has no rows.
const EMPTY_TABLES: [&str; 17] = [
    "pg_constraint",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_table",
    "pg_index",
    "pg_inherits",
    "pg_partitioned_table",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_rel",
    "pg_range",
    "pg_rewrite",
    "pg_sequence",
    "pg_statistic_ext",
    "pg_trigger",
];
/// Types that the engine lacks. The value itself is compared.
const TYPES: [&str; 8] =
    ["regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole", "name", "\"char\""];
const NO_ROWS: &str = "SELECT NULL AS nothing WHERE false";

/// A statement, rewritten if it is about the catalog.
pub(crate) fn rewritten(sql: &str) -> String {
    if !sql.contains("pg_") && !sql.contains("current_") {
        return sql.to_owned();
    }
    let tokens: Vec<SqlToken<'_>> = lexer::tokens(sql)
        .filter(|token| !matches!(token.kind, TokenKind::Space | TokenKind::Comment))
        .collect();
    if tokens.iter().any(|token| token.kind == TokenKind::Word && EMPTY_TABLES.contains(&token.text)) {
        return NO_ROWS.to_owned();
    }
    let mut out = String::new();
    let mut rest = StatementRest { tokens: &tokens, at: 0 };
    while let Some(token) = rest.tokens.get(rest.at) {
        if let Some(text) = rest.special() {
            out.push(' ');
            out.push_str(&text);
            continue;
        }
        let before = rest.at.checked_sub(1).and_then(|before| rest.tokens.get(before));
        if before.is_none_or(|before| before.start + before.text.len() < token.start) {
            out.push(' ');
        }
        out.push_str(token.text);
        rest.at += 1;
    }
    out.trim_start().to_owned()
}

/// The rest of a statement.
struct StatementRest<'a> {
    tokens: &'a [SqlToken<'a>],
    at: usize,
}

impl StatementRest<'_> {
    fn text(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn is(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(ahead, word)| self.text(ahead).eq_ignore_ascii_case(word))
    }

    /// The text for a form that the engine lacks, which is skipped. None for any other token.
    fn special(&mut self) -> Option<String> {
        if self.is(&["operator", "(", "pg_catalog", "."]) {
            Some(self.operator())
        } else if self.is(&["collate", "pg_catalog", "."]) {
            Some(self.skip(4, ""))
        } else if self.is(&[":", ":"]) {
            Some(self.cast())
        } else if self.is(&["(", "select"]) && self.at > 0 && self.is_about_defaults() {
            Some(self.skip_parentheses("NULL"))
        } else if self.is(&["pg_catalog", ".", "array_to_string", "("]) && self.is_about_options() {
            self.at += 3;
            Some(self.skip_parentheses("''"))
        } else if self.is(&["pg_catalog", "."]) && self.text(3) == "(" {
            Some(self.skip(2, ""))
        } else {
            self.name()
        }
    }

    /// The text for a name without its schema, if it is one of the catalog's.
    fn name(&mut self) -> Option<String> {
        let is_qualified = self.at > 0 && self.tokens[self.at - 1].text == ".";
        if is_qualified || self.text(1) == "(" {
            return None;
        }
        let text = match self.text(0).to_ascii_lowercase().as_str() {
            "current_user" | "session_user" | "current_catalog" => "'stallmap'".to_owned(),
            "current_schema" => "current_schema()".to_owned(),
            table if TABLES.contains(&table) => format!("pg_catalog.{table}"),
            _ => return None,
        };
        Some(self.skip(1, &text))
    }

    fn skip(&mut self, count: usize, text: &str) -> String {
        self.at += count;
        text.to_owned()
    }

    /// `OPERATOR(pg_catalog.~)` as `~`
    fn operator(&mut self) -> String {
        self.at += 4;
        let mut text = String::new();
        while !matches!(self.text(0), "" | ")") {
            text.push_str(self.text(0));
            self.at += 1;
        }
        self.at += 1;
        text
    }

    /// `::pg_catalog.regclass` as nothing, `::pg_catalog.text` as `::text`, and numbers of objects as `::bigint`
    fn cast(&mut self) -> String {
        let name_at = if self.text(3) == "." { 4 } else { 2 };
        let name = self.text(name_at).to_ascii_lowercase();
        let is_array = self.text(name_at + 1) == "[";
        if TYPES.contains(&name.as_str()) {
            return self.skip(name_at + if is_array { 3 } else { 1 }, "");
        }
        if name == "oid" {
            return self.skip(name_at + 1, "::bigint");
        }
        self.skip(name_at, "::")
    }

    /// True for a subquery in parentheses that reads defaults or collations, which columns do not have.
    fn is_about_defaults(&self) -> bool {
        let inner = self.tokens[self.at..self.end()].iter();
        inner.clone().any(|token| matches!(token.text, "pg_attrdef" | "pg_collation"))
    }

    /// True for a call of `array_to_string` on options or access rights, which captures do not have.
    fn is_about_options(&self) -> bool {
        self.text(6) == "reloptions" || self.text(6).ends_with("acl")
    }

    /// The place of the parenthesis that closes the one here.
    fn end(&self) -> usize {
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().skip(self.at) {
            match token.text {
                "(" => depth += 1,
                ")" if depth == 1 => return at,
                ")" => depth -= 1,
                _ => {}
            }
        }
        self.tokens.len()
    }

    fn skip_parentheses(&mut self, text: &str) -> String {
        self.at = self.end() + 1;
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_statements_stay() {
        let sql = "SELECT 'a  b' -- note\nFROM launch";
        assert_eq!(rewritten(sql), sql);
    }

    #[test]
    fn forms_of_psql_become_forms_of_the_engine() {
        let sql = "SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relname OPERATOR(pg_catalog.~) '^(x)$' \
                   COLLATE pg_catalog.default AND pg_catalog.pg_table_is_visible(c.oid) AND c.a !~ '^b'";
        let expected = "SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relname ~ '^(x)$'  AND pg_table_is_visible(c.oid) \
                        AND c.a !~ '^b'";
        assert_eq!(rewritten(sql), expected);
        let casts = "SELECT a::pg_catalog.regtype::pg_catalog.text, '1'::oid, E'\\n' FROM pg_type";
        assert_eq!(rewritten(casts), "SELECT a  ::text, '1' ::bigint, E'\\n' FROM pg_catalog.pg_type");
        let defaults =
            "SELECT a.x, (SELECT pg_get_expr(d.b) FROM pg_catalog.pg_attrdef d) FROM pg_attribute a";
        assert_eq!(rewritten(defaults), "SELECT a.x, NULL FROM pg_catalog.pg_attribute a");
        assert_eq!(rewritten("SELECT * FROM pg_catalog.pg_index"), NO_ROWS);
    }
}
