//! Forms of SQL that the engine does not know, with another form that it does.

use super::between;
use crate::excerpt;
use crate::exit::{CommandFailure, QUERY};

/// Functions of other engines, and the form with the same result.
const FUNCTIONS: [(&str, &str); 9] = [
    ("arg_max", "write first_value(a ORDER BY b DESC)"),
    ("max_by", "write first_value(a ORDER BY b DESC)"),
    ("arg_min", "write first_value(a ORDER BY b)"),
    ("min_by", "write first_value(a ORDER BY b)"),
    ("mode", "count the rows GROUP BY the value, ORDER BY the count DESC LIMIT 1"),
    ("quantile", "write approx_percentile_cont(x, 0.9), or median(x), which is exact"),
    ("percentile_cont", "write approx_percentile_cont(x, 0.9), or median(x), which is exact"),
    ("regexp_extract", "write regexp_match(text, 'pattern')[1]"),
    ("bit_count", "write lane_count(mask), which counts the bits of 32"),
];

/// The form for a function of another engine.
pub(super) fn for_function(name: &str) -> Option<&'static str> {
    FUNCTIONS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, form)| *form)
}

/// Rewords errors about forms that are not supported.
pub(super) fn reworded(message: &str, sql: &str) -> Option<CommandFailure> {
    if message.contains("Projections require unique expression names") {
        let name = between(message, "the expression \"", "\"").unwrap_or("the same");
        let name = name.rsplit('.').next().unwrap_or(name);
        let failure =
            CommandFailure::message(QUERY, format!("two columns of the result are called `{name}`"));
        let place = excerpt::of_name(sql, name, false);
        return Some(failure.excerpt(place).hint("name one of them: expression AS other_name".to_owned()));
    }
    if message.contains("FETCH clause") {
        let failure = CommandFailure::message(QUERY, "FETCH is not supported");
        return Some(
            failure.excerpt(excerpt::of_name(sql, "FETCH", false)).hint("write LIMIT 10".to_owned()),
        );
    }
    if message.contains("OuterReferenceColumn") {
        let message = "a subquery depends on the rows outside of it in a way that is not supported";
        let hint = "number the rows of a JOIN, and keep the first: row_number() OVER (PARTITION BY key ORDER BY cost DESC)";
        return Some(CommandFailure::message(QUERY, message).hint(hint.to_owned()));
    }
    None
}

/// The error about an aggregate inside a window function inside another function, which the engine takes for a column.
pub(super) fn window(column: &str) -> Option<CommandFailure> {
    let hint =
        "compute the window function in a subquery, or give it a name: sum(a) / sum(sum(a)) OVER () AS share";
    let failure =
        CommandFailure::message(QUERY, "a function of a window function of an aggregate is not supported");
    column.contains(" ROWS BETWEEN ").then(|| failure.hint(hint.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_other_engines_have_a_form() {
        assert_eq!(for_function("ARG_MAX"), Some("write first_value(a ORDER BY b DESC)"));
        assert_eq!(for_function("sum"), None);
    }

    #[test]
    fn columns_of_one_name_are_named() {
        let message = "Projections require unique expression names but the expression \"kernel_cost.samples\" at position 0 and \"kernel_cost.samples\" at position 4 have the same name. Consider aliasing (\"AS\") one of them.";
        let failure = reworded(message, "SELECT samples, * FROM kernel_cost").unwrap();
        assert!(failure.to_string().contains("two columns of the result are called `samples`"), "{failure}");
        assert!(reworded("other", "SELECT 1").is_none());
    }
}
