//! Captures at URLs: the same results as from a file, from a small part of its bytes, and errors that name the cause.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use crate::command::{CommandFolder, command};
use crate::server::{ObjectServer, ServerBehaviour};

/// Maximum part of a capture that a query about one column may fetch.
const SMALL_PART: f64 = 0.25;

fn bundled(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

fn served(name: &str, manner: ServerBehaviour) -> ObjectServer {
    ObjectServer::start(fs::read(bundled(name)).unwrap(), manner)
}

/// Runs `stallmap` with the environment of an S3 client.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let place = CommandFolder::new();
    let mut command = command(&place.path(""));
    for name in ["AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "HTTP_PROXY", "http_proxy"]
    {
        command.env_remove(name);
    }
    command.args(arguments).envs(variables.iter().copied()).output().unwrap()
}

/// Runs a command, given by its words before and after the capture, on the file and on URLs of it.
#[track_caller]
fn same_answers(name: &str, before: &[&str], after: &[&str]) {
    let path = bundled(name);
    let arguments = |capture: &str| -> Vec<String> {
        let capture = [capture].into_iter();
        before.iter().copied().chain(capture).chain(after.iter().copied()).map(str::to_owned).collect()
    };
    let answer = |capture: &str, variables: &[(&str, &str)]| {
        let arguments = arguments(capture);
        let ran = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), variables);
        let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
        let stdout = String::from_utf8_lossy(&ran.stdout).replace(capture, "[CAPTURE]");
        assert!(ran.status.success(), "{capture}: {stderr}");
        (stdout, stderr)
    };
    let (local, _) = answer(path.to_str().unwrap(), &[]);
    let server = served(name, ServerBehaviour::Ranges);
    let (http, message) = answer(&server.url("x/a.stallmap"), &[]);
    assert_eq!(http, local);
    assert!(
        message.contains("fetched ") && message.contains(&format!(" in {} request", server.requests())),
        "{message}"
    );
    let bucket = served(name, ServerBehaviour::Ranges);
    let variables = [("AWS_ENDPOINT_URL", bucket.root())];
    let (s3, _) = answer("s3://bucket/runs/a.stallmap", &variables.each_ref().map(|(n, v)| (*n, v.as_str())));
    assert_eq!(s3, local);
    assert!(bucket.heads().iter().all(|head| head.contains(" /bucket/runs/a.stallmap ")));
}

#[test]
fn a_report_is_the_same_from_a_url() {
    same_answers("inference_views.stallmap", &["report"], &["--top", "3"]);
}

#[test]
fn info_and_check_are_the_same_from_a_url() {
    same_answers("inference_views.stallmap", &["info"], &[]);
    same_answers("inference_views.stallmap", &["check"], &[]);
}

#[test]
fn a_question_fetches_what_it_reads() {
    let question = ["--format", "csv", "-c", "SELECT sum(samples) AS samples FROM pc_sample"];
    same_answers("transformer_step.stallmap", &["sql"], &question);
    let server = served("transformer_step.stallmap", ServerBehaviour::Ranges);
    let ran = run(&[&["sql", &server.url("a.stallmap")], &question[..]].concat(), &[]);
    assert!(ran.status.success());
    let size = fs::metadata(bundled("transformer_step.stallmap")).unwrap().len();
    let share = server.sent_bytes() as f64 / size as f64;
    assert!(share < SMALL_PART, "{} of {size} bytes in {} requests", server.sent_bytes(), server.requests());
    assert!(server.requests() <= 12, "{} requests", server.requests());
}

#[test]
fn a_report_makes_few_requests() {
    let server = served("transformer_step.stallmap", ServerBehaviour::Ranges);
    let ran = run(&["report", &server.url("a.stallmap"), "--section", "tensors"], &[]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(server.requests() <= 60, "{} requests", server.requests());
}

/// A list of the kernels of a prepared capture needs neither accesses nor machine code.
#[test]
fn stored_rows_are_read_from_a_url() {
    let place = CommandFolder::new();
    let path = place.path("a.stallmap");
    fs::copy(bundled("transformer_step.stallmap"), &path).unwrap();
    let kernels = ["--format", "csv", "-c", "SELECT * FROM kernel_cost ORDER BY function_id"];
    let computed = run(&[&["sql", path.to_str().unwrap()], &kernels[..]].concat(), &[]);
    let prepared = run(&["prepare", "--in-place", path.to_str().unwrap()], &[]);
    assert!(prepared.status.success(), "{}", String::from_utf8_lossy(&prepared.stderr));
    let file = fs::read(&path).unwrap();
    let size = file.len() as f64;
    let server = ObjectServer::start(file, ServerBehaviour::Ranges);
    let ran = run(&[&["sql", &server.url("a.stallmap")], &kernels[..]].concat(), &[]);
    assert_eq!(ran.stdout, computed.stdout, "{}", String::from_utf8_lossy(&ran.stderr));
    assert!((server.sent_bytes() as f64) < 0.4 * size, "{} of {size} bytes", server.sent_bytes());
}

#[test]
fn requests_are_signed_where_there_are_credentials() {
    let server = served("inference_views.stallmap", ServerBehaviour::Ranges);
    let root = server.root();
    let keys =
        [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_ENDPOINT_URL", &root)];
    let ran = run(&["info", "s3://bucket/a.stallmap", "launch"], &keys);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(server.heads().iter().all(|head| head.contains("authorization: aws4-hmac-sha256")));
    let open = served("inference_views.stallmap", ServerBehaviour::Ranges);
    run(&["info", "s3://bucket/a.stallmap", "launch"], &[("AWS_ENDPOINT_URL", &open.root())]);
    assert!(open.requests() > 0 && open.heads().iter().all(|head| !head.contains("authorization:")));
}

/// The error of a URL, and its hint.
fn error(capture: &str, variables: &[(&str, &str)]) -> String {
    let ran = run(&["info", capture], variables);
    let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(3), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    stderr
}

/// Compares errors with the snapshot of a name.
fn check_errors(name: &str, errors: &[String]) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("../snapshots");
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, errors.join("\n")));
}

#[test]
fn what_is_wrong_with_a_server_is_said() {
    let message = |manner: ServerBehaviour, path: &str| {
        let server = served("inference_views.stallmap", manner);
        error(&server.url(path), &[]).replace(&server.root(), "http://host")
    };
    let errors = [
        message(ServerBehaviour::NoRanges, "a.stallmap"),
        message(ServerBehaviour::CutsShort, "a.stallmap"),
        message(ServerBehaviour::Status(403), "a.stallmap?X-Amz-Signature=secret"),
        message(ServerBehaviour::Status(401), "a.stallmap"),
        message(ServerBehaviour::Status(500), "a.stallmap"),
        message(ServerBehaviour::Ranges, "b.stallmap"),
        message(ServerBehaviour::Changes, "a.stallmap"),
    ];
    check_errors("remote_server_errors", &errors);
}

#[test]
fn what_is_wrong_with_a_bucket_is_said() {
    let server = served("inference_views.stallmap", ServerBehaviour::Status(403));
    let errors = [
        error("s3://bucket/a.stallmap", &[("AWS_ENDPOINT_URL", &server.root())]),
        error("s3://bucket/a.stallmap", &[("AWS_ENDPOINT_URL", "http://192.0.2.1:9000")]),
        error("s3://bucket", &[]),
    ];
    check_errors("remote_bucket_errors", &errors);
}

#[test]
fn nobody_there_is_an_error() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = error(&format!("http://127.0.0.1:{port}/a.stallmap"), &[]);
    assert!(
        text.starts_with(&format!("error: open capture: cannot connect to 127.0.0.1:{port}: ")),
        "{text}"
    );
    assert!(text.contains("hint: check the address and the network"), "{text}");
    let root = format!("http://127.0.0.1:{port}");
    let text = error("s3://bucket/a.stallmap", &[("AWS_ENDPOINT_URL", &root)]);
    assert!(
        text.starts_with(&format!("error: open capture: cannot connect to 127.0.0.1:{port}: ")),
        "{text}"
    );
    assert!(text.contains("set AWS_ENDPOINT_URL for a server that is not Amazon's"), "{text}");
    // No network has names below `.invalid`.
    let text = error("https://name.invalid/a.stallmap", &[]);
    assert!(text.starts_with("error: open capture: cannot find the server name.invalid: "), "{text}");
}

#[test]
fn a_server_that_stumbles_is_asked_again() {
    let server = served("inference_views.stallmap", ServerBehaviour::Stumbles);
    let ran = run(&["sql", &server.url("a.stallmap"), "-c", "SELECT count(*) FROM launch"], &[]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn a_server_without_ranges_from_the_end_is_asked_for_the_size() {
    let server = served("known_truth.stallmap", ServerBehaviour::NoSuffixes);
    let ran = run(&["top", "kernels", &server.url("a.stallmap")], &[]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let asked = server.heads().iter().filter(|head| head.starts_with("head ")).count();
    assert_eq!(asked, 1);
}

#[test]
fn other_files_at_a_url_are_not_captures() {
    let text =
        error(&ObjectServer::start(vec![b'x'; 100_000], ServerBehaviour::Ranges).url("a.stallmap"), &[]);
    assert!(text.starts_with("error: not a stallmap capture: it is not a ZIP file"), "{text}");
    let mut cut = fs::read(bundled("inference_views.stallmap")).unwrap();
    cut.truncate(cut.len() / 2);
    let text = error(&ObjectServer::start(cut, ServerBehaviour::Ranges).url("a.stallmap"), &[]);
    assert!(text.starts_with("error: capture is truncated: its directory is not at its end"), "{text}");
}
