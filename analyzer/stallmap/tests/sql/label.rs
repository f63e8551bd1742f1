//! Labels of kernels and tensors, on every bundled capture.

use stallmap::session::Session;

use crate::answer;
use crate::finding::captures;

/// Two kernels never print as one text, and a label is shorter than a line.
#[tokio::test]
async fn no_two_kernels_have_one_label() {
    for capture in captures() {
        let session = Session::open(&[(None, capture.clone())]).unwrap();
        let twice =
            "SELECT short_kernel, count(*) FROM kernel_name GROUP BY short_kernel HAVING count(*) > 1";
        assert_eq!(answer(&session, twice).await.unwrap(), [""; 0], "{}", capture.display());
        let lost =
            "SELECT count(*) FROM function WHERE function_id NOT IN (SELECT function_id FROM kernel_name)";
        assert_eq!(answer(&session, lost).await.unwrap(), ["0"], "{}", capture.display());
        // Names of C++ lose namespaces, parameters and return types.
        let signed = "SELECT short_kernel FROM kernel_name WHERE short_kernel <> kernel \
            AND regexp_like(short_kernel, '::|[(]|^void ')";
        assert_eq!(answer(&session, signed).await.unwrap(), [""; 0], "{}", capture.display());
    }
}

/// Functions of one name in different modules are different kernels.
#[tokio::test]
async fn equal_names_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::open(&[(None, crate::session::tiny_folder(folder.path()))]).unwrap();
    let view = "CREATE OR REPLACE TABLE function AS SELECT CAST(1 AS BIGINT UNSIGNED) AS function_id, 'f' AS demangled_name \
        UNION ALL SELECT CAST(18364758544493064720 AS BIGINT UNSIGNED), 'f' \
        UNION ALL SELECT CAST(3 AS BIGINT UNSIGNED), 'g<1>(int)' UNION ALL SELECT CAST(4 AS BIGINT UNSIGNED), 'g<2>(int)'";
    let made = answer(&session, view).await;
    assert!(made.is_ok(), "{made:?}");
    let labels = "SELECT short_kernel FROM kernel_name ORDER BY function_id";
    assert_eq!(answer(&session, labels).await.unwrap(), ["f #1", "g<1>", "g<2>", "f #2"]);
}
