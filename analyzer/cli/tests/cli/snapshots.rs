//! Output for users and programs.

use std::process::Stdio;

use crate::command::{CommandFolder, command};

/// Runs a command on the small capture and compares everything that it left behind.
macro_rules! snapshot {
    ($name:ident, $arguments:expr) => {
        snapshot!($name, $arguments, "");
    };
    ($name:ident, $arguments:expr, $input:expr) => {
        #[test]
        fn $name() {
            CommandFolder::new().run_with_input(&$arguments, $input).check(stringify!($name));
        }
    };
}

snapshot!(help, ["--help"]);
snapshot!(help_report, ["report", "--help"]);
snapshot!(help_source, ["source", "--help"]);
snapshot!(help_sql, ["sql", "--help"]);
snapshot!(help_info, ["info", "--help"]);
snapshot!(help_check, ["check", "--help"]);
snapshot!(help_prepare, ["prepare", "--help"]);
snapshot!(help_pack, ["pack", "--help"]);
snapshot!(help_unpack, ["unpack", "--help"]);
snapshot!(no_command, [""; 0]);
snapshot!(unknown_option, ["report", "tiny.stallmap", "--tpo", "3"]);

snapshot!(report, ["report", "tiny.stallmap"]);
snapshot!(report_top_1, ["report", "tiny.stallmap", "--top", "1", "--section", "tensors"]);
snapshot!(report_json, ["report", "tiny.stallmap", "--format", "json"]);
snapshot!(report_csv, ["report", "tiny.stallmap", "--format", "csv"]);
snapshot!(report_csv_section, ["report", "tiny.stallmap", "--format", "csv", "--section", "tensors"]);
snapshot!(report_sql, ["report", "tiny.stallmap", "--sql", "--section", "tensors", "--top", "3"]);
snapshot!(report_unknown_section, ["report", "tiny.stallmap", "--section", "tensor"]);

snapshot!(source, ["source", "tiny.stallmap"]);
snapshot!(source_charged, ["source", "tiny.stallmap", "--sort", "charged", "--top", "1"]);
snapshot!(source_all, ["source", "tiny.stallmap", "--all"]);
snapshot!(source_csv, ["source", "tiny.stallmap", "--format", "csv"]);
snapshot!(source_sql, ["source", "tiny.stallmap", "--sql"]);
snapshot!(source_unknown_kernel, ["source", "tiny.stallmap", "--kernel", "nothing"]);
snapshot!(source_ambiguous_kernel, ["source", "tiny.stallmap", "--kernel", "."]);
snapshot!(source_page_without_folder, ["source", "tiny.stallmap", "--html", "missing/page.html"]);

snapshot!(info, ["info", "tiny.stallmap"]);
snapshot!(info_lists, ["info", "tiny.stallmap", "--tables", "--views"]);
snapshot!(info_table, ["info", "tiny.stallmap", "pc_sample"]);
snapshot!(info_view, ["info", "tiny.stallmap", "tensor_stall_cost"]);
snapshot!(info_unknown, ["info", "tiny.stallmap", "pc_smaple"]);
snapshot!(check, ["check", "tiny.stallmap"]);

const LAUNCHES: &str =
    "SELECT kernel_id, ordinal, grid_x, register_count, cluster_x FROM launch ORDER BY ordinal";

snapshot!(sql_table, ["sql", "tiny.stallmap", "-c", LAUNCHES]);
snapshot!(sql_csv, ["sql", "tiny.stallmap", "-c", LAUNCHES, "--format", "csv"]);
snapshot!(sql_json, ["sql", "tiny.stallmap", "-c", LAUNCHES, "--format", "json"]);
snapshot!(sql_jsonl, ["sql", "tiny.stallmap", "-c", LAUNCHES, "--format", "jsonl"]);
snapshot!(sql_rows, ["sql", "tiny.stallmap", "-c", LAUNCHES, "--rows", "2"]);
snapshot!(
    sql_lists,
    [
        "sql",
        "tiny.stallmap",
        "-c",
        "SELECT name, sizes, strides FROM tensor ORDER BY tensor_id",
        "--format",
        "csv"
    ]
);
snapshot!(sql_no_rows, ["sql", "tiny.stallmap", "-c", "SELECT name FROM op WHERE false", "--format", "csv"]);
snapshot!(
    sql_no_rows_json,
    ["sql", "tiny.stallmap", "-c", "SELECT name FROM op WHERE false", "--format", "json"]
);
snapshot!(
    sql_several_captures,
    [
        "sql",
        "a=tiny.stallmap",
        "b=tiny.stallmap",
        "-c",
        "SELECT count(*) AS both FROM a.launch JOIN b.launch USING (kernel_id)"
    ]
);
snapshot!(sql_nameless_captures, ["sql", "tiny.stallmap", "tiny.stallmap", "-c", "SELECT 1"]);
snapshot!(sql_unknown_table, ["sql", "tiny.stallmap", "-c", "SELECT * FROM launches"]);
snapshot!(sql_unknown_column, ["sql", "tiny.stallmap", "-c", "SELECT kernel FROM launch"]);
snapshot!(sql_misspelt_column, ["sql", "tiny.stallmap", "-c", "SELECT l.kernal_id FROM launch l"]);
snapshot!(sql_unknown_function, ["sql", "tiny.stallmap", "-c", "SELECT summ(grid_x) FROM launch"]);
snapshot!(sql_syntax_error, ["sql", "tiny.stallmap", "-c", "SELEC 1"]);
snapshot!(sql_unknown_alias, ["sql", "tiny.stallmap", "-c", "SELECT x.grid_x FROM launch l"]);
snapshot!(
    sql_ambiguous_column,
    ["sql", "tiny.stallmap", "-c", "SELECT 1,\n  kernel_id FROM launch a, launch b"]
);
snapshot!(sql_not_grouped, ["sql", "tiny.stallmap", "-c", "SELECT grid_x, count(*) FROM launch"]);
snapshot!(sql_wrong_arguments, ["sql", "tiny.stallmap", "-c", "SELECT poisson_low('a', 'b')"]);
snapshot!(sql_statement_ends, ["sql", "tiny.stallmap", "-c", "SELECT (grid_x FROM launch"]);
snapshot!(sql_unknown_capture, ["sql", "tiny.stallmap", "-c", "SELECT * FROM b.launch"]);
snapshot!(sql_runtime_error, ["sql", "tiny.stallmap", "-c", "SELECT CAST(name AS INT) FROM op"]);
snapshot!(sql_drops_no_table_of_a_capture, ["sql", "tiny.stallmap", "-c", "DROP TABLE launch"]);
snapshot!(sql_is_read_only, ["sql", "tiny.stallmap", "-c", "COPY launch TO 'launch.parquet'"]);
snapshot!(
    sql_first_error_ends,
    ["sql", "tiny.stallmap", "-c", "SELECT 1 AS one; SELECT nope; SELECT 2 AS two"]
);
snapshot!(sql_missing_file, ["sql", "tiny.stallmap", "-f", "missing.sql"]);
snapshot!(sql_unwritable_output, ["sql", "tiny.stallmap", "-c", "SELECT 1", "-o", "missing/out.csv"]);
snapshot!(sql_output_of_two, ["sql", "tiny.stallmap", "-c", "SELECT 1; SELECT 2", "-o", "out.csv"]);

snapshot!(stdin_statements, ["sql", "tiny.stallmap"], "SELECT 1 AS one;\n-- nothing\nSELECT\n  2 AS two\n");
snapshot!(
    stdin_views_last,
    ["sql", "tiny.stallmap"],
    "CREATE VIEW v AS SELECT 1 AS one;\nSELECT * FROM v;\n"
);
snapshot!(
    stdin_format,
    ["sql", "tiny.stallmap"],
    ".format csv\nSELECT 1 AS one, 'a,b' AS text;\n.quit\nSELECT 2;\n"
);
snapshot!(stdin_help, ["sql", "tiny.stallmap"], ".help\n");
snapshot!(stdin_schema, ["sql", "tiny.stallmap"], ".schema tensor\n");
snapshot!(stdin_doc, ["sql", "tiny.stallmap"], ".doc loss\n");
snapshot!(stdin_doc_of_function, ["sql", "tiny.stallmap"], ".doc poisson_low\n");
snapshot!(stdin_doc_unknown, ["sql", "tiny.stallmap"], ".doc poison_low\n");
snapshot!(stdin_unknown_example, ["sql", "tiny.stallmap"], ".examples 99\n");
snapshot!(stdin_example_of_two_captures, ["sql", "tiny.stallmap"], ".examples before_and_after\n");
snapshot!(stdin_sql_of_section, ["sql", "tiny.stallmap"], ".sql coverage\n");
snapshot!(stdin_unknown_dot_command, ["sql", "tiny.stallmap"], ".table\n");
snapshot!(stdin_missing_argument, ["sql", "tiny.stallmap"], ".schema\n");
snapshot!(stdin_unknown_sql, ["sql", "tiny.stallmap"], ".sql nothing\n");

#[test]
fn output_files_are_what_they_are_named() {
    let place = CommandFolder::new();
    let select = "SELECT kernel_id, ordinal FROM launch ORDER BY ordinal";
    for name in ["out.csv", "out.json", "out.jsonl", "out.md", "out.parquet"] {
        let ran = place.run(&["sql", "tiny.stallmap", "-c", select, "-o", name]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    }
    assert!(std::fs::read_to_string(place.path("out.csv")).unwrap().starts_with("kernel_id,ordinal\n"));
    assert!(std::fs::read_to_string(place.path("out.json")).unwrap().starts_with("[{"));
    assert_eq!(std::fs::read_to_string(place.path("out.jsonl")).unwrap().lines().count(), 3);
    let markdown = std::fs::read_to_string(place.path("out.md")).unwrap();
    assert!(markdown.starts_with("| kernel\\_id | ordinal |\n| ---: | ---: |\n| "), "{markdown}");
    let refused = place.run(&["sql", "tiny.stallmap", "-c", select, "-o", "out.xlsx"]);
    refused.expect_error(2);
    assert!(refused.stderr.contains("md, parquet") && !place.path("out.xlsx").exists(), "{}", refused.stderr);
    assert!(std::fs::read(place.path("out.parquet")).unwrap().starts_with(b"PAR1"));
}

#[test]
fn a_failed_query_leaves_the_output_file_as_it_was() {
    let place = CommandFolder::new();
    let out = place.file("out.csv", "precious");
    let failing = "SELECT CAST(name AS INT) FROM op";
    place.run(&["sql", "tiny.stallmap", "-c", failing, "-o", "out.csv"]).expect_error(4);
    assert_eq!(std::fs::read_to_string(out).unwrap(), "precious");
    let names = std::fs::read_dir(place.path(".")).unwrap().count();
    assert_eq!(names, 2, "no temporary file remains");
}

#[test]
fn a_packed_capture_answers_as_the_folder_does() {
    let place = CommandFolder::new();
    assert_eq!(place.run(&["unpack", "tiny.stallmap", "folder"]).code, Some(0));
    assert_eq!(place.run(&["pack", "folder", "again.stallmap"]).code, Some(0));
    let read = |name| std::fs::read(place.path(name)).unwrap();
    assert_eq!(read("tiny.stallmap"), read("again.stallmap"));
    let select = ["-c", "SELECT * FROM op ORDER BY op_id"];
    let ask = |name| place.run(&[&["sql", name], &select[..]].concat()).stdout;
    assert_eq!(ask("folder"), ask("again.stallmap"));
    place.run(&["pack", "folder", "again.stallmap"]).expect_error(5);
    place.run(&["unpack", "tiny.stallmap", "folder"]).expect_error(5);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = CommandFolder::new();
    let many = "SELECT a.kernel_id FROM memory_access a, memory_access b, memory_access c, memory_access d";
    for arguments in
        [&["sql", "tiny.stallmap", "--format", "csv", "-c", many][..], &["info", "tiny.stallmap"]]
    {
        let mut child = command(&place.path("."))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn shells_get_their_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = CommandFolder::new().run(&["completions", shell]);
        assert_eq!(ran.code, Some(0));
        assert!(ran.stdout.contains("STALLMAP_COMPLETE"));
    }
}

#[test]
fn names_are_completed_from_the_capture() {
    let place = CommandFolder::new();
    let complete = |words: &[&str]| {
        let mut shell = command(&place.path("."));
        shell.env("STALLMAP_COMPLETE", "bash").env("_CLAP_IFS", " ");
        shell.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        let output = shell.args(["--", "stallmap"]).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete(&["report", "tiny.stallmap", "--section", "co"]), "counters coverage");
    assert_eq!(complete(&["source", "tiny.stallmap", "--kernel", "ga"]), "gather");
    assert_eq!(complete(&["info", "tiny.stallmap", "line_c"]), "line_cost");
    assert_eq!(complete(&["source", "missing.stallmap", "--kernel", "ga"]), "");
}

#[test]
fn the_shell_runs_examples_and_files() {
    let place = CommandFolder::new();
    place.file(
        "mine.sql",
        ".format csv\nSELECT 1\n  AS one;\n.output out.csv\nSELECT 2 AS two;\n.output\n.read mine.sql\n",
    );
    let ran = place.run_with_input(&["sql", "tiny.stallmap"], ".examples\n.examples 16\n");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("first_launches")
            && ran.stdout.contains("Do launches of one kernel cost the same"),
        "{}",
        ran.stdout
    );
    let ran = place.run_with_input(&["sql", "tiny.stallmap"], ".read mine.sql\n");
    ran.expect_error(2);
    assert!(ran.stdout.starts_with("one\n1\n") && ran.stderr.contains("too many files"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(place.path("out.csv")).unwrap(), "two\n2\n");
}

#[test]
fn the_shell_lists_tables_and_views() {
    let ran = CommandFolder::new().run_with_input(&["sql", "tiny.stallmap"], ".tables\n.views\n");
    assert_eq!(ran.code, Some(0));
    for name in ["pc_sample", "memory_access", "coverage", "tensor_stall_cost"] {
        assert!(
            ran.stdout.lines().any(|line| line.split_whitespace().take(2).any(|word| word == name)),
            "{name}"
        );
    }
}
