//! Sentences about waits have the numbers of the launches and objects that they name.

use stallmap::library::queries;

use crate::craft::crafted;

/// One instruction of `transformer_step` reads a permuted tensor, two sectors per request, and in other launches a transposed
/// one, 32.
#[tokio::test]
async fn sectors_are_those_of_the_object_that_is_named() {
    let of = |name: &str| {
        let why = queries::report::WHY.text().replace("$top", "1000");
        let words =
            "regexp_replace(why, '^.*, ([0-9.]+) sectors per request, ideal ([0-9.]+).*$', '\\1 of \\2')";
        format!("SELECT DISTINCT {words} FROM ({why}) WHERE why LIKE '%+0x4e90, which reads `{name}%'")
    };
    assert_eq!(crafted("transformer_step", &[], &of("permute()")).await, ["2.0 of 2.0"]);
    assert_eq!(crafted("transformer_step", &[], &of("transpose() at :36")).await, ["32.0 of 2.0"]);
}
