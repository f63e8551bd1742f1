//! `LIKE`, `SIMILAR TO` and the operators of regular expressions as functions, which have a bound.
//!
//! DataFusion computes an operator for all rows of a batch in one step, which nothing interrupts: `LIKE` with 5,000 `%` takes
//! minutes for a text of a megabyte, and the patterns of all rows stay compiled in memory. Operators with a short constant pattern
//! stay, since DataFusion has faster forms of them, and reads less of a table.

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Like;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::bounded::bounded;
use crate::functions::memory::QueryMemory;
use crate::functions::operator::operate;

/// Most parts of a pattern that is short.
const SHORT_PARTS: u64 = 64;
/// Most `%` and `_` of a pattern that is short.
const SHORT_WILDCARDS: usize = 16;

/// Puts functions for operators whose pattern is not short. It runs after types are coerced.
#[derive(Debug)]
pub struct BoundedPatterns(pub QueryMemory);

impl AnalyzerRule for BoundedPatterns {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| self.bound(plan)).data()
    }

    fn name(&self) -> &'static str {
        "bounded_patterns"
    }
}

impl BoundedPatterns {
    /// One step of a plan with functions.
    fn bound(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let mut has_pattern = false;
        plan.apply_expressions(|expr| {
            has_pattern |= expr.exists(|expr| Ok(operator(expr).is_some()))?;
            Ok(if has_pattern { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !has_pattern {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let bound = expr.transform_up(|expr| Ok(self.function_for(expr)))?;
            Ok(bound.update_data(|expr| name.restore(expr)))
        })
    }

    fn function_for(&self, expr: Expr) -> Transformed<Expr> {
        let Some(operator) = operator(&expr) else { return Transformed::no(expr) };
        let (text, pattern) = match expr {
            Expr::Like(Like { expr, pattern, .. }) | Expr::SimilarTo(Like { expr, pattern, .. }) => {
                (expr, pattern)
            }
            Expr::BinaryExpr(BinaryExpr { left, right, .. }) => (left, right),
            other => return Transformed::no(other),
        };
        let function = PatternFunction { operator, signature: Signature::any(2, Volatility::Immutable) };
        let function = bounded(&ScalarUDF::from(function), self.0);
        Transformed::yes(function.call(vec![*text, *pattern]))
    }
}

/// The operator of an expression with a pattern that is not short.
fn operator(expr: &Expr) -> Option<Operator> {
    use Operator::{
        ILikeMatch, LikeMatch, NotILikeMatch, NotLikeMatch, RegexIMatch, RegexMatch, RegexNotIMatch,
        RegexNotMatch,
    };
    match expr {
        // The planner refuses other escapes.
        Expr::Like(Like { escape_char: None | Some('\\'), negated, case_insensitive, pattern, .. }) => {
            let operator = match (negated, case_insensitive) {
                (false, false) => LikeMatch,
                (false, true) => ILikeMatch,
                (true, false) => NotLikeMatch,
                (true, true) => NotILikeMatch,
            };
            (!has_few_wildcards(pattern)).then_some(operator)
        }
        Expr::SimilarTo(Like { escape_char: None, negated, case_insensitive, pattern, .. }) => {
            let operator = match (negated, case_insensitive) {
                (false, false) => RegexMatch,
                (false, true) => RegexIMatch,
                (true, false) => RegexNotMatch,
                (true, true) => RegexNotIMatch,
            };
            (!is_short_pattern(pattern)).then_some(operator)
        }
        Expr::BinaryExpr(BinaryExpr { op, right, .. }) => match op {
            RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch => {
                (!is_short_pattern(right)).then_some(*op)
            }
            LikeMatch | ILikeMatch | NotLikeMatch | NotILikeMatch => {
                (!has_few_wildcards(right)).then_some(*op)
            }
            _ => None,
        },
        _ => None,
    }
}

/// True for a constant regular expression that is short.
pub(super) fn is_short_pattern(pattern: &Expr) -> bool {
    is_constant(pattern, |text| pattern_parts(text) <= SHORT_PARTS)
}

fn has_few_wildcards(pattern: &Expr) -> bool {
    is_constant(pattern, |text| text.matches(['%', '_']).count() <= SHORT_WILDCARDS)
}

/// True for a constant text for which the condition holds, or no text at all.
fn is_constant(pattern: &Expr, is_so: impl Fn(&str) -> bool) -> bool {
    pattern.as_literal().is_some_and(|value| value.try_as_str().flatten().is_none_or(is_so))
}

/// The parts of a pattern, each as often as it is repeated: `(a{1,50}){20}` has 1,000.
pub(super) fn pattern_parts(pattern: &str) -> u64 {
    // Parts of the groups that are open, and of the part that a repetition would repeat.
    let (mut groups, mut last) = (vec![0_u64], 0_u64);
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        let parts = match character {
            '(' => {
                groups.push(0);
                continue;
            }
            ')' if groups.len() > 1 => groups.pop().map_or(1, |parts| parts.saturating_add(1)),
            '{' => match repetition(characters.as_str()) {
                Some((times, rest)) => {
                    characters = rest.chars();
                    last.saturating_mul(times)
                }
                None => 1,
            },
            '*' | '+' | '?' => last,
            '\\' => {
                characters.next();
                1
            }
            _ => 1,
        };
        last = parts;
        if let Some(group) = groups.last_mut() {
            *group = group.saturating_add(parts);
        }
    }
    groups.into_iter().fold(0, u64::saturating_add)
}

/// The most repetitions of `1,50}` or the like, and the pattern after it.
fn repetition(text: &str) -> Option<(u64, &str)> {
    let (counts, rest) = text.split_once('}')?;
    let counts = counts.split(',').filter_map(|count| count.trim().parse().ok());
    Some((counts.max()?, rest))
}

/// An operator as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct PatternFunction {
    operator: Operator,
    signature: Signature,
}

impl ScalarUDFImpl for PatternFunction {
    fn name(&self) -> &str {
        match self.operator {
            Operator::LikeMatch => "LIKE",
            Operator::ILikeMatch => "ILIKE",
            Operator::NotLikeMatch => "NOT LIKE",
            Operator::NotILikeMatch => "NOT ILIKE",
            Operator::RegexIMatch => "~*",
            Operator::RegexNotMatch => "!~",
            Operator::RegexNotIMatch => "!~*",
            _ => "~",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Field::new(self.name(), DataType::Boolean, is_nullable).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        operate(self.operator, args)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::optimizer::Analyzer;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// The answer of a session with functions, or with operators.
    async fn answer(sql: &str, is_bounded: bool) -> Result<String> {
        let mut rules = Analyzer::new().rules;
        if is_bounded {
            rules.push(Arc::new(BoundedPatterns(QueryMemory::default())));
        }
        let state = SessionStateBuilder::new_with_default_features().with_analyzer_rules(rules).build();
        let rows = SessionContext::new_with_state(state).sql(sql).await?.collect().await?;
        Ok(pretty_format_batches(&rows)?.to_string())
    }

    #[tokio::test]
    async fn rows_and_names_are_those_of_the_operators() {
        let rows = "('abc', 'a%c'), ('aBc', 'A.c'), (NULL, 'x'), ('d', NULL)";
        let table = format!("(SELECT arrow_cast(x, 'Utf8View') AS v, * FROM (VALUES {rows}) AS t (x, p))");
        for operator in ["LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE", "SIMILAR TO", "~", "~*", "!~", "!~*"] {
            let word = format!("arrow_cast(x, 'Dictionary(Int8, Utf8)') {operator} p");
            let sql = format!(
                "SELECT x {operator} p, {word} AS word, v {operator} p, x {operator} '{}b%' FROM {table} WHERE x {operator} p OR x > 'a'",
                "%a".repeat(20)
            );
            assert_eq!(answer(&sql, true).await.unwrap(), answer(&sql, false).await.unwrap(), "{sql}");
        }
    }

    #[tokio::test]
    async fn long_work_is_refused() {
        for (operator, pattern) in
            [("LIKE", "%a"), ("NOT ILIKE", "_"), ("SIMILAR TO", ".*a"), ("!~*", "(a|b)")]
        {
            let sql = format!("SELECT repeat('a', 1000000) {operator} '{}b'", pattern.repeat(5000));
            let error = answer(&sql, true).await.unwrap_err().to_string();
            assert!(error.contains(" of long texts: shorten them"), "{error}");
        }
    }

    #[test]
    fn parts_are_counted_as_often_as_they_repeat() {
        for (pattern, parts) in [
            ("abc", 3),
            ("(ab)", 3),
            ("a{3}", 4),
            ("(a{1,50}){20}", 52 + 52 * 20),
            (r"\({2}", 3),
            ("[0-9]{4}-{2}", 12),
        ] {
            assert_eq!(pattern_parts(pattern), parts, "{pattern}");
        }
    }
}
