//! Browsers of `stallmap serve --http`: admission, pages, statements, files, limits, TLS, and what is refused.

mod client;
mod server;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, net::Shutdown};

use client::{HttpReply, ask, ask_encrypted, connect, request};
use server::{HttpServer, PAGE, STATEMENT};

use crate::absent;
use crate::command::{CommandFolder, command};
use crate::serving::{DOUBLING, ENDLESS, RECURSIVE, check_addresses, statements_on, too_large};

/// A text in an address.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |text, byte| format!("{text}%{byte:02x}"))
}

#[test]
fn rows_are_those_of_the_command_line() {
    let place = CommandFolder::new();
    let server = HttpServer::new(&place, &["tiny.stallmap"]);
    let sql = "SELECT kernel, launch_count, samples, share FROM kernel_cost ORDER BY kernel";
    let reply = server.sql(sql);
    assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
    let answer = reply.json();
    assert_eq!(answer["columns"][0], serde_json::json!({ "name": "kernel", "is_number": false }));
    assert_eq!(answer["columns"][1], serde_json::json!({ "name": "launch_count", "is_number": true }));
    let printed = place.run(&["sql", "tiny.stallmap", "-c", sql, "--format", "csv"]);
    let printed = &printed.expect_ok().stdout;
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!((rows.len(), answer["more"].as_u64()), (printed.lines().count() - 1, Some(0)));
    assert_eq!(rows[0][1].as_str(), printed.lines().nth(1).and_then(|line| line.rsplit(',').nth(2)));
    // A file has the bytes of the command line.
    for format in ["csv", "json"] {
        let file = server.get(&format!("{PAGE}/rows.{format}?sql={}", encoded(sql)));
        let printed = place.run(&["sql", "tiny.stallmap", "-c", sql, "--format", format]);
        assert_eq!((file.status, file.text()), (200, printed.expect_ok().stdout.as_str()));
        assert!(file.is_whole);
        let name = format!("attachment;filename=\"tiny-rows.{format}\"");
        assert_eq!(file.field("content-disposition"), Some(name.as_str()));
    }
    let file = server.get(&format!("{PAGE}/rows.parquet?sql={}", encoded(sql)));
    assert!(file.is_whole && file.body.starts_with(b"PAR1") && file.body.ends_with(b"PAR1"));
    assert_eq!(server.sql("SELECT NULL AS a, 'x' AS b;").json()["rows"], serde_json::json!([[null, "x"]]));
}

#[test]
fn only_a_browser_with_the_token_is_admitted() {
    let place = CommandFolder::new();
    let server = HttpServer::new(&place, &["tiny.stallmap"]);
    let (host, cookie) = (server.host(), server.cookie.clone());
    for path in ["/", PAGE, "/capture/tiny/names", "/nothing", "/?token=", "/?token=0123456789abcdef"] {
        let reply = server.plain("GET", path, &[]);
        assert_eq!((reply.status, reply.field("set-cookie")), (401, None), "{path}");
        assert!(reply.text().contains("<form") && !reply.text().contains("tiny"), "{path}");
    }
    let wrong = format!("stallmap_{}=0123", server.port);
    assert_eq!(server.plain("GET", PAGE, &[("Cookie", &wrong)]).status, 401);
    // Another name for this address (DNS rebinding), other origins, other sites.
    for (name, value, status) in [
        ("Host", "evil.example".to_owned(), 421),
        ("Host", format!("evil.example:{}", server.port), 421),
        ("Origin", "http://evil.example".to_owned(), 403),
        ("Origin", "null".to_owned(), 403),
        ("Origin", format!("http://127.0.0.1:{}", server.port ^ 1), 403),
        ("Sec-Fetch-Site", "cross-site".to_owned(), 403),
        ("Sec-Fetch-Site", "same-site".to_owned(), 403),
    ] {
        let host = if name == "Host" { vec![] } else { vec![("Host", host.as_str())] };
        let fields = [&host[..], &[("Cookie", &cookie), STATEMENT, (name, &value)]].concat();
        let reply = ask(server.port, &request("POST", "/capture/tiny/rows", &fields, "SELECT 1"));
        assert_eq!(reply.status, status, "{name}: {value}");
    }
    let own = [STATEMENT, ("Origin", &format!("http://{host}")), ("Sec-Fetch-Site", "same-origin")];
    let reply = ask(server.port, &server.own("POST", "/capture/tiny/rows", &own, "SELECT 1"));
    assert_eq!(reply.status, 200);
    // A form of another site cannot have the type of a statement.
    let form = [("Content-Type", "text/plain")];
    let reply = ask(server.port, &server.own("POST", "/capture/tiny/rows", &form, "SELECT 1"));
    assert_eq!(reply.status, 415);
    // A link on another site leads on by a page, because the cookie does not follow its redirect.
    let token = server.link.split_once('?').unwrap().1;
    let site = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")];
    let reply = server.plain("GET", &format!("/?{token}"), &site);
    assert_eq!((reply.status, reply.field("refresh")), (200, Some("0;url=/")));
}

#[test]
fn a_password_is_entered_in_a_form() {
    let place = CommandFolder::new();
    place.file("secret", "correct horse+\nsecond line\n");
    let server = HttpServer::without_visit(&place, &["tiny.stallmap", "--password-file", "secret"]);
    assert_eq!(server.link, format!("http://{}/", server.host()));
    let enter = |text: &str| {
        let host = server.host();
        let fields = [("Host", host.as_str()), ("Content-Type", "application/x-www-form-urlencoded")];
        ask(server.port, &request("POST", "/login", &fields, &format!("token={text}")))
    };
    let reply = enter("wrong");
    assert!(reply.status == 401 && reply.text().contains("is wrong"), "{reply:?}");
    let reply = enter("correct+horse%2b");
    assert_eq!((reply.status, reply.field("location")), (303, Some("/")));
    let cookie = reply.field("set-cookie").unwrap().split(';').next().unwrap();
    assert!(!cookie.contains("correct"));
    let page = server.plain("GET", "/", &[("Cookie", cookie)]);
    assert_eq!((page.status, page.field("location")), (303, Some(PAGE)));
}

#[test]
fn a_page_has_the_report_and_a_policy() {
    let place = CommandFolder::new();
    let server = HttpServer::new(&place, &["tiny.stallmap"]);
    let page = server.get(PAGE);
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html;charset=utf-8")));
    for part in [
        "<section id=\"verdict\"",
        "<section id=\"sql\"",
        "<textarea id=\"statement\"",
        "<section id=\"coverage\"",
    ] {
        assert_eq!(page.text().matches(part).count(), 1, "{part}");
    }
    let policy = page.field("content-security-policy").unwrap();
    let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; base-uri 'none'; \
             connect-src 'self'; form-action 'none'; frame-ancestors 'none'"
        )
    );
    for script in page.text().split("<script").skip(1) {
        assert!(script.split('>').next().unwrap().contains(nonce));
    }
    for reply in [page, server.sql("SELECT 1"), server.plain("GET", "/", &[]), server.get("/nothing")] {
        let expected = [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
        ];
        assert!(expected.iter().all(|(name, value)| reply.field(name) == Some(value)), "{reply:?}");
        assert!(reply.field("content-security-policy").unwrap().ends_with("frame-ancestors 'none'"));
        assert_eq!(reply.field("access-control-allow-origin"), None);
    }
    // The report on disk asks no server.
    let ran = place.run(&["report", "tiny.stallmap", "--html", "page.html"]);
    ran.expect_ok();
    let report = fs::read_to_string(place.path("page.html")).unwrap();
    assert!(!report.contains("textarea") && !report.contains("connect-src") && !report.contains("fetch("));
}

#[test]
fn errors_are_those_of_the_shell() {
    let place = CommandFolder::new();
    let server = HttpServer::new(&place, &["tiny.stallmap"]);
    let reply = server.sql("SELECT kernelid FROM launch");
    assert_eq!(reply.status, 400);
    let error = reply.json();
    let printed = place.run(&["sql", "tiny.stallmap", "-c", "SELECT kernelid FROM launch"]);
    let expected = format!(
        "error: {}\n{}\nhint: {}\n",
        error["error"].as_str().unwrap(),
        error["excerpt"].as_str().unwrap(),
        error["hint"].as_str().unwrap()
    );
    assert_eq!(printed.stderr, expected);
    assert!(expected.contains("^^^^^^^^") && expected.contains("did you mean `kernel_id`?"));
    for (sql, part) in [
        ("", "there is no statement"),
        ("SELECT 1; SELECT 2", "there are several statements"),
        ("CREATE VIEW v AS SELECT 1", "captures are read-only"),
        ("SET datafusion.runtime.memory_limit = '1T'", "SetVariable is not allowed"),
        ("COPY launch TO 'launch.csv'", "COPY"),
    ] {
        let reply = server.sql(sql);
        assert!(reply.status == 400 && reply.text().contains(part), "{sql}: {}", reply.text());
    }
    place.file("secret.csv", "a\n1\n");
    let file = place.path("secret.csv").display().to_string();
    for sql in statements_on(&file) {
        assert_eq!(server.sql(&sql).status, 400, "{sql}");
    }
    let reply = server.get(&format!("{PAGE}/rows.csv?sql={}", encoded("SELEC 1")));
    assert_eq!((reply.status, reply.field("content-disposition")), (400, None));
    // An error behind the first rows is no complete file.
    let late = "SELECT value, CASE WHEN value > 100000 THEN CAST(repeat('x', 3) AS INT) END FROM generate_series(1, 200000)";
    let reply = server.get(&format!("{PAGE}/rows.csv?sql={}", encoded(late)));
    assert!(reply.status == 400 || !reply.is_whole, "{}", reply.status);
    for (method, path, status) in [
        ("GET", "/capture/other", 404),
        ("GET", "/capture/tiny/rows.exe?sql=", 404),
        ("GET", "/capture/../../etc/passwd", 404),
        ("GET", "/capture/tiny/rows", 404),
        ("PUT", "/capture/tiny", 405),
        ("GET", "/favicon.ico", 204),
    ] {
        assert_eq!(ask(server.port, &server.own(method, path, &[], "")).status, status, "{method} {path}");
    }
}

#[test]
fn long_answers_are_cut_in_the_page_and_complete_in_files() {
    let place = CommandFolder::new();
    let server = HttpServer::new(&place, &["tiny.stallmap", "--memory", "64M"]);
    let answer = server.sql("SELECT value FROM generate_series(1, 12345)").json();
    assert_eq!(answer["rows"].as_array().unwrap().len(), 500);
    assert_eq!((answer["more"].as_u64(), answer["is_exact"].as_bool()), (Some(11_845), Some(true)));
    let wide =
        server.sql("SELECT repeat('x', 1999) AS a, repeat('y', 3000) AS b, repeat('z', 9999) AS c, repeat('z', 2000) AS d, \
 repeat('z', 2001) AS e FROM generate_series(1, 5000)");
    assert!(wide.body.len() < 6 << 20 && wide.json()["more"].as_u64().unwrap() > 4_500);
    assert!(wide.json()["rows"][0][1].as_str().unwrap().ends_with("… (1000 more characters)"));
    // 200 MB of rows pass a server that may hold 64 MB.
    let sql = "SELECT value, repeat('x', 1000) AS x FROM generate_series(1, 200000)";
    let file = server.get(&format!("{PAGE}/rows.csv?sql={}", encoded(sql)));
    assert!(file.is_whole);
    assert_eq!(file.text().lines().count(), 200_001);
    let too_large = "SELECT count(*) FROM (SELECT DISTINCT repeat(CAST(value AS VARCHAR), 40) AS x, \
                     array_agg(repeat('x', 1000)) FROM generate_series(1, 400000) GROUP BY x)";
    let reply = server.sql(too_large);
    assert!(
        reply.status == 400 && reply.json()["hint"].as_str().unwrap().contains("--memory"),
        "{}",
        reply.text()
    );
    assert_eq!(server.sql("SELECT 1").status, 200);
}

#[test]
fn a_query_ends_at_its_time_or_when_its_client_leaves() {
    let place = CommandFolder::new();
    let server = HttpServer::new(&place, &["tiny.stallmap", "--timeout", "2", "--connections", "1"]);
    let begin = Instant::now();
    let reply = server.sql(ENDLESS);
    assert!(reply.status == 504 && reply.json()["hint"].as_str().unwrap().contains("--timeout"));
    assert!(begin.elapsed() >= Duration::from_secs(2));
    drop(server);

    let server = HttpServer::new(&place, &["tiny.stallmap", "--timeout", "600", "--connections", "1"]);
    let mut stream = connect(server.port);
    stream.write_all(&server.own("POST", &format!("{PAGE}/rows"), &[STATEMENT], ENDLESS)).unwrap();
    let busy = |reply: &HttpReply| reply.status == 503 && reply.text().contains("--connections");
    let until = |is_busy: bool| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while busy(&server.sql("SELECT 1")) != is_busy {
            assert!(Instant::now() < deadline, "a place is taken: {is_busy}");
            thread::sleep(Duration::from_millis(50));
        }
    };
    until(true);
    drop(stream);
    until(false);
    // It leaves within a file.
    let sql = "SELECT value, repeat('x', 1000) FROM generate_series(1, 100000000)";
    let mut stream = connect(server.port);
    stream.write_all(&server.own("GET", &format!("{PAGE}/rows.csv?sql={}", encoded(sql)), &[], "")).unwrap();
    let mut begin = vec![0; 1 << 20];
    stream.read_exact(&mut begin).unwrap();
    until(true);
    drop(stream);
    until(false);
}

#[test]
fn a_statement_that_is_too_large_is_refused_and_the_next_one_answered() {
    let place = CommandFolder::new();
    let server = HttpServer::new(&place, &["tiny.stallmap", "--connections", "1"]);
    // A place becomes free shortly after its reply.
    let answer = |sql: &str| {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let reply = server.sql(sql);
            if reply.status != 503 || Instant::now() > deadline {
                return reply;
            }
            thread::sleep(Duration::from_millis(50));
        }
    };
    for (sql, part) in too_large().into_iter().chain([(DOUBLING.to_owned(), "`||` makes more than")]) {
        let reply = answer(&sql);
        assert!(reply.status == 400 && reply.text().contains(part), "{}: {}", reply.status, reply.text());
        assert_eq!(answer("SELECT 1").status, 200);
    }
    let server = HttpServer::new(&place, &["tiny.stallmap", "--timeout", "1", "--connections", "1"]);
    assert_eq!(server.sql(RECURSIVE).status, 504);
}

#[test]
fn connections_that_ask_nothing_keep_no_one_out() {
    let place = CommandFolder::new();
    let server = HttpServer::new(&place, &["tiny.stallmap", "--connections", "1"]);
    let idle: Vec<_> = (0..100).map(|_| connect(server.port)).collect();
    let begun: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = connect(server.port);
            // A server that ended it already may refuse the bytes.
            drop(stream.write_all(b"GET / HTTP/1.1\r\nHost: "));
            stream
        })
        .collect();
    assert_eq!(server.sql("SELECT 1").status, 200);
    // The oldest connections were closed, long before the time limit of an HTTP request.
    let mut rest = Vec::new();
    drop((&idle[0]).read_to_end(&mut rest));
    assert!(rest.is_empty());
    drop((idle, begun));
}

#[test]
fn broken_requests_end_only_their_own_connection() {
    let place = CommandFolder::new();
    let server = HttpServer::new(&place, &["tiny.stallmap"]);
    let host = server.host();
    let long = "x".repeat(70 << 10);
    let fields: Vec<(&str, &str)> = vec![("X", "y"); 100];
    for (bytes, status) in [
        (b"\x16\x03\x01\x02\0\x01\0\r\n\r\n".to_vec(), 400),
        (b"GET / HTTP/1.0\r\n\r\n".to_vec(), 400),
        (request("GET", "/", &[], ""), 421),
        (request("GET", "/", &[("Host", &host), ("Content-Length", "1, 2")], ""), 400),
        (request("POST", "/", &[("Host", &host), ("Transfer-Encoding", "chunked")], ""), 411),
        (request("GET", &format!("/{long}"), &[("Host", &host)], ""), 431),
        (request("GET", "/", &fields, ""), 431),
        (server.own("POST", "/capture/tiny/rows", &[STATEMENT, ("Content-Length", "9999999")], ""), 413),
    ] {
        assert_eq!(
            ask(server.port, &bytes).status,
            status,
            "{}",
            String::from_utf8_lossy(&bytes[..40.min(bytes.len())])
        );
    }
    // An HTTP request that does not end, and one without a body.
    for bytes in [
        b"GET / HTTP/1.1\r\n".to_vec(),
        server.own("POST", "/capture/tiny/rows", &[("Content-Length", "9")], ""),
    ] {
        let mut stream = connect(server.port);
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
    assert_eq!(server.sql("SELECT 1").status, 200);
}

#[test]
fn a_folder_has_a_list_of_its_captures() {
    let place = CommandFolder::new();
    fs::create_dir(place.path("runs")).unwrap();
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/inference_views.stallmap");
    fs::copy(place.path("tiny.stallmap"), place.path("runs/one.stallmap")).unwrap();
    fs::copy(bundled, place.path("runs/two <b>.stallmap")).unwrap();
    let server = HttpServer::new(&place, &["runs"]);
    let list = server.get("/");
    assert_eq!(list.status, 200);
    let links: Vec<&str> =
        list.text().split("<a href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(links, ["/capture/one", "/capture/two__b_"]);
    assert!(list.text().contains("two &lt;b&gt;.stallmap") && !list.text().contains("<script"));
    for link in links {
        assert!(server.get(link).text().contains("<textarea id=\"statement\""), "{link}");
    }
    // Unqualified names mean the page's capture, and others have their names.
    let sql = "SELECT (SELECT count(*) FROM pc_sample) = (SELECT count(*) FROM two__b_.pc_sample) AS own, \
               (SELECT count(*) FROM pc_sample) = (SELECT count(*) FROM one.pc_sample) AS other";
    let reply = ask(server.port, &server.own("POST", "/capture/two__b_/rows", &[STATEMENT], sql));
    assert_eq!(reply.json()["rows"], serde_json::json!([["true", "false"]]), "{}", reply.text());
}

#[test]
fn names_have_descriptions_and_statements_that_run() {
    let place = CommandFolder::new();
    let server = HttpServer::new(&place, &["tiny.stallmap"]);
    let reply = server.get(&format!("{PAGE}/names"));
    let kinds = reply.json();
    let titles: Vec<&str> =
        kinds.as_array().unwrap().iter().map(|kind| kind["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Examples", "Views", "Tables"]);
    for kind in kinds.as_array().unwrap() {
        let entries = kind["entries"].as_array().unwrap();
        assert!(entries.len() > 5 && entries.iter().all(|entry| entry["doc"].as_str().is_some()));
        for entry in entries.iter().step_by(9) {
            let sql = entry["sql"].as_str().unwrap();
            let reply = server.sql(sql);
            assert_eq!(reply.status, 200, "{sql}: {}", reply.text());
        }
    }
    absent::without(&place, "empty", &["*"]);
    let server = HttpServer::new(&place, &["empty"]);
    let rows = server.own("POST", "/capture/empty/rows", &[STATEMENT], "SELECT kernel FROM kernel_cost");
    let reply = ask(server.port, &rows);
    assert!(reply.json()["absence"].as_str().unwrap().contains("holds no launches"), "{}", reply.text());
}

#[test]
fn beyond_loopback_is_only_with_a_certificate() {
    let place = CommandFolder::new();
    check_addresses(&place, "--http");
    let ran = place.run(&["serve", "tiny.stallmap"]);
    assert!(
        ran.expect_error(2)
            .stderr
            .contains("<--http <HOST:PORT>|--postgres <HOST:PORT>|--flight <HOST:PORT>|--stdio>")
    );
    place.run(&["serve", "tiny.stallmap", "--postgres", "127.0.0.1:0", "--source-root", "."]).expect_error(2);
    place
        .run(&["serve", "tiny.stallmap", "--http", "127.0.0.1:0", "--postgres", "127.0.0.1:0"])
        .expect_error(2);
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    place.file("cert.pem", made.cert.pem());
    place.file("key.pem", made.signing_key.serialize_pem());
    let server = HttpServer::without_visit(
        &place,
        &["tiny.stallmap", "--tls-cert", "cert.pem", "--tls-key", "key.pem"],
    );
    let host = format!("localhost:{}", server.port);
    let path = server.link.split_once(&server.host()).unwrap().1;
    assert!(server.link.starts_with("https://"));
    let get = request("GET", path, &[("Host", &host)], "");
    let reply = ask_encrypted(server.port, made.cert.der().clone(), &get);
    let cookie = reply.field("set-cookie").unwrap();
    assert!(reply.status == 303 && cookie.ends_with("; Secure"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let fields = [("Host", host.as_str()), ("Cookie", cookie), STATEMENT];
    let post = request("POST", "/capture/tiny/rows", &fields, "SELECT 1");
    assert_eq!(ask_encrypted(server.port, made.cert.der().clone(), &post).status, 200);
    // Nothing is answered in the clear.
    let mut stream = connect(server.port);
    stream.write_all(&get).unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    assert!(!answer.starts_with(b"HTTP"));
}

#[test]
fn the_browser_gets_the_token_in_a_file_of_its_user() {
    let place = CommandFolder::new();
    let script = "#!/bin/sh\necho \"$1\" > opened.part\nmv opened.part opened\n";
    for name in ["xdg-open", "open"] {
        let path = place.file(name, script);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = command(&place.path(""))
        .args(["open", "tiny.stallmap", "--serve"])
        .env("PATH", format!("{}:{path}", place.path("").display()))
        .env("TMPDIR", place.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let link = lines.nth(1).unwrap().split_once(": ").unwrap().1.to_owned();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !place.path("opened").exists() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    let opened = fs::read_to_string(place.path("opened"));
    child.kill().unwrap();
    child.wait().unwrap();
    let opened = opened.unwrap();
    let file = Path::new(opened.trim());
    assert!(fs::read_to_string(file).unwrap().contains(&format!("0;url={link}\"")));
    assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
}
