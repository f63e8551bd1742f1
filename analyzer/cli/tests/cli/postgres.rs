//! Clients of `stallmap serve --postgres`: logins, both kinds of queries, limits, TLS, and what is refused.

mod client;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use client::{PostgresTestClient, RowValues};

use crate::command::CommandFolder;
use crate::serving::{ENDLESS, RECURSIVE, ServeProcess, check_addresses, statements_on, too_large};

/// A running server.
struct PostgresServer {
    _serving: ServeProcess,
    port: u16,
    password: String,
}

impl PostgresServer {
    fn new(place: &CommandFolder, arguments: &[&str]) -> Self {
        let (serving, [address, password]) = ServeProcess::start(place, "--postgres", arguments);
        let address = address.strip_prefix("listening on 127.0.0.1:").unwrap();
        let port = address.split_whitespace().next().unwrap().parse().unwrap();
        let password = password.strip_prefix("password: ").unwrap().to_owned();
        Self { _serving: serving, port, password }
    }

    fn client(&self) -> PostgresTestClient {
        PostgresTestClient::connect(self.port, &self.password).unwrap()
    }
}

/// Values as text.
fn texts(rows: &[RowValues]) -> Vec<Vec<&str>> {
    fn texts_of(row: &RowValues) -> Vec<&str> {
        row.iter()
            .map(|value| value.as_deref().map_or("null", |bytes| str::from_utf8(bytes).unwrap()))
            .collect()
    }
    rows.iter().map(texts_of).collect()
}

#[test]
fn rows_are_those_of_the_command_line() {
    let place = CommandFolder::new();
    let server = PostgresServer::new(&place, &["tiny.stallmap"]);
    assert_eq!(server.password.len(), 32);
    let mut client = server.client();
    let sql = "SELECT launch_count, samples, share FROM kernel_cost ORDER BY kernel";
    let rows = client.query(sql).unwrap();
    let printed = place.run(&["sql", "tiny.stallmap", "-c", sql, "--format", "csv"]);
    let lines: Vec<Vec<&str>> =
        printed.expect_ok().stdout.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(texts(&rows), lines);
    assert_eq!(texts(&client.query("SELECT 1; SELECT 2").unwrap()), [["1"], ["2"]]);
    assert_eq!(texts(&client.query("SHOW server_encoding").unwrap()), [["UTF8"]]);
    assert!(client.query("").unwrap().is_empty());
}

#[test]
fn a_wrong_password_is_refused() {
    let place = CommandFolder::new();
    let server = PostgresServer::new(&place, &["tiny.stallmap"]);
    let error = PostgresTestClient::connect(server.port, "0123456789abcdef").err().unwrap();
    assert_eq!((error.severity.as_str(), error.code.as_str()), ("FATAL", "28P01"));
    place.file("secret", "correct horse\nsecond line\n");
    let server = PostgresServer::new(&place, &["tiny.stallmap", "--password-file", "secret"]);
    assert_eq!(server.password, "as given");
    PostgresTestClient::connect(server.port, "correct horse").unwrap();
}

#[test]
fn prepared_statements_take_values_and_send_parts() {
    let place = CommandFolder::new();
    let server = PostgresServer::new(&place, &["tiny.stallmap"]);
    let mut client = server.client();
    let (types, names) =
        client.prepare("s", "SELECT ordinal, grid_x FROM launch WHERE ordinal >= $1 ORDER BY 1").unwrap();
    assert_eq!(types, [1_700]);
    assert_eq!(names, ["ordinal", "grid_x"]);
    let all = client.run("s", &["0"], false, 0).unwrap();
    let (count, is_suspended) = (all.rows.len(), all.is_suspended);
    assert!(count > 1 && !is_suspended, "{count} rows");
    let first = client.run("s", &["0"], false, 1).unwrap();
    assert_eq!((first.rows.as_slice(), first.is_suspended), (&all.rows[..1], true));
    let none = client.run("s", &["18446744073709551615"], false, 0).unwrap();
    assert!(none.rows.is_empty());
    let error = client.run("s", &["first"], false, 0).unwrap_err();
    assert_eq!(error.code, "22P02");
    // A binary bigint has 8 bytes, the most significant first.
    client.prepare("b", "SELECT CAST($1 AS BIGINT) + 1").unwrap();
    assert_eq!(client.run("b", &["41"], true, 0).unwrap().rows, [vec![Some(42_i64.to_be_bytes().to_vec())]]);
    assert_eq!(client.run("gone", &[], false, 0).unwrap_err().code, "26000");
    assert_eq!(texts(&client.query("SELECT 1").unwrap()), [["1"]]);
}

#[test]
fn nothing_is_written_and_no_file_is_read() {
    let place = CommandFolder::new();
    place.file("secret.csv", "a\n1\n");
    let server = PostgresServer::new(&place, &["tiny.stallmap"]);
    let mut client = server.client();
    let file = place.path("secret.csv").display().to_string();
    for sql in &statements_on(&file) {
        assert!(client.query(sql).is_err(), "{sql}");
        assert!(client.prepare("", sql).is_err(), "{sql}");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "a\n1\n");
    let changes = [
        ("CREATE VIEW v AS SELECT 1", "25006"),
        ("CREATE TABLE t AS SELECT 1", "25006"),
        ("DROP VIEW kernel_cost", "25006"),
        ("DELETE FROM launch", "25006"),
        ("SET datafusion.runtime.memory_limit = '1T'", "42704"),
        ("SELECT nothing FROM launch", "42703"),
        ("SELECT * FROM nothing", "42P01"),
        ("SELEC 1", "42601"),
    ];
    for (sql, code) in changes {
        assert_eq!(client.query(sql).unwrap_err().code, code, "{sql}");
    }
    let error = client.query("SELECT kernelid FROM launch").unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("did you mean `kernel_id`?"));
}

#[test]
fn a_failed_transaction_waits_for_its_end() {
    let place = CommandFolder::new();
    let server = PostgresServer::new(&place, &["tiny.stallmap"]);
    let mut client = server.client();
    client.query("BEGIN").unwrap();
    assert_eq!(client.state, b'T');
    client.query("SELEC 1").unwrap_err();
    assert_eq!(client.state, b'E');
    assert_eq!(client.query("SELECT 1").unwrap_err().code, "25P02");
    client.query("ROLLBACK").unwrap();
    assert_eq!(client.state, b'I');
    client.query("SELECT 1").unwrap();
}

#[test]
fn a_query_ends_at_its_time_or_when_cancelled() {
    let place = CommandFolder::new();
    let server = PostgresServer::new(&place, &["tiny.stallmap", "--timeout", "2"]);
    let mut client = server.client();
    let begin = Instant::now();
    let error = client.query(ENDLESS).unwrap_err();
    assert_eq!(error.code, "57014");
    assert!(error.hint.unwrap().contains("--timeout"));
    assert!(begin.elapsed() >= Duration::from_secs(2));
    client.query("SET statement_timeout = 100").unwrap();
    assert!(client.query(ENDLESS).unwrap_err().message.contains("0.1 s"));
    client.query("RESET statement_timeout").unwrap();
    let (port, key) = (server.port, client.key);
    let cancel = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        PostgresTestClient::cancel(port, (key.0, key.1 ^ 1));
        PostgresTestClient::cancel(port, key);
    });
    let error = client.query(ENDLESS).unwrap_err();
    cancel.join().unwrap();
    assert_eq!(error.message, "the query was cancelled");
    assert_eq!(texts(&client.query("SELECT 1").unwrap()), [["1"]]);
}

#[test]
fn a_statement_that_is_too_large_is_refused_and_the_next_one_answered() {
    let place = CommandFolder::new();
    let server = PostgresServer::new(&place, &["tiny.stallmap"]);
    let mut client = server.client();
    for (sql, part) in too_large() {
        let error = client.query(&sql).unwrap_err();
        assert!(error.code == "42000" && error.message.contains(part), "{}: {}", error.code, error.message);
        assert_eq!(texts(&client.query("SELECT 1").unwrap()), [["1"]]);
    }
    let server = PostgresServer::new(&place, &["tiny.stallmap", "--timeout", "1"]);
    assert_eq!(server.client().query(RECURSIVE).unwrap_err().code, "57014");
}

#[test]
fn prepared_statements_count_against_the_memory_and_leave_with_their_client() {
    let place = CommandFolder::new();
    let server = PostgresServer::new(&place, &["tiny.stallmap", "--memory", "32M"]);
    let mut client = server.client();
    let long = format!("SELECT '{}'", "y".repeat(300_000));
    let refused = (0..100).find_map(|number| client.prepare(&format!("s{number}"), &long).err()).unwrap();
    assert!(
        refused.code == "53200" && refused.message.contains("prepared statements"),
        "{}",
        refused.message
    );
    client.query("DEALLOCATE ALL").unwrap();
    client.prepare("s", &long).unwrap();
    drop(client);
    // A portal holds a copy of its statement's plan.
    let mut client = server.client();
    let numbers: Vec<String> = (0..5_000).map(|number| (number % 10).to_string()).collect();
    client.prepare("s", &format!("SELECT 1 WHERE $1 IN ({})", numbers.join(","))).unwrap();
    client.bind(2, "s", "7").unwrap();
    let refused = client.bind(32, "s", "7").unwrap_err();
    assert_eq!(refused.code, "53200", "{}", refused.message);
    drop(client);
    // A name of any length is no work for the thread that all clients share.
    let error = server.client().query(&format!("SELECT * FROM {}", "launch".repeat(100_000))).unwrap_err();
    assert_eq!(error.code, "42P01");
}

#[test]
fn connections_are_counted_and_one_that_leaves_makes_room() {
    let place = CommandFolder::new();
    let server = PostgresServer::new(&place, &["tiny.stallmap", "--connections", "2"]);
    let (mut first, second) = (server.client(), server.client());
    assert_eq!(PostgresTestClient::connect(server.port, &server.password).err().unwrap().code, "53300");
    // It leaves within an answer that it does not read.
    let mut second = second;
    second.send_query("SELECT value, repeat('x', 1000) FROM generate_series(1, 1000000)");
    drop(second);
    let deadline = Instant::now() + Duration::from_secs(30);
    while PostgresTestClient::connect(server.port, &server.password).is_err() {
        assert!(Instant::now() < deadline, "its place stays taken");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(texts(&first.query("SELECT 1").unwrap()), [["1"]]);
}

#[test]
fn a_long_answer_is_streamed_whole() {
    let place = CommandFolder::new();
    let server = PostgresServer::new(&place, &["tiny.stallmap", "--memory", "32M"]);
    let mut client = server.client();
    // 200 MB of rows pass a server that may hold 32 MB.
    let count = client.count("SELECT value, repeat('x', 1000) FROM generate_series(1, 200000)").unwrap();
    assert_eq!(count, 200_000);
    let too_large = "SELECT count(*) FROM (SELECT DISTINCT repeat(CAST(value AS VARCHAR), 40) AS x, \
                     array_agg(repeat('x', 1000)) FROM generate_series(1, 400000) GROUP BY x)";
    assert_eq!(client.query(too_large).unwrap_err().code, "53200");
    assert_eq!(texts(&client.query("SELECT 1").unwrap()), [["1"]]);
}

#[test]
fn broken_messages_end_only_their_own_connection() {
    let place = CommandFolder::new();
    let server = PostgresServer::new(&place, &["tiny.stallmap"]);
    let mut client = server.client();
    let garbage: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0\0\0\x04",
        b"\0\0\0\x08\0\x02\0\0",
        b"\xff\xff\xff\xff\0\x03\0\0",
        b"\0\0\0\x0a\0\x03\0\0us",
        b"\x16\x03\x01\x02\0\x01\0",
    ];
    for bytes in garbage {
        PostgresTestClient::throw(server.port, bytes);
    }
    for message in [&b"B\0\0\0\x05x"[..], b"Q\0\0\0\x03", b"P\x7f\xff\xff\xff"] {
        let mut other = server.client();
        other.write(message);
        assert!(other.is_ended());
    }
    assert_eq!(texts(&client.query("SELECT 1").unwrap()), [["1"]]);
}

#[test]
fn the_catalog_describes_relations() {
    let place = CommandFolder::new();
    fs::create_dir(place.path("runs")).unwrap();
    for name in ["one.stallmap", "two.stallmap"] {
        fs::copy(place.path("tiny.stallmap"), place.path("runs").join(name)).unwrap();
    }
    let server = PostgresServer::new(&place, &["runs"]);
    let mut client = server.client();
    // As psql's \d writes them.
    let found = client
        .query(
            "SELECT c.oid, n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class c \
             LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relname OPERATOR(pg_catalog.~) '^(kernel_cost)$' COLLATE pg_catalog.default \
             AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 2, 3",
        )
        .unwrap();
    let found = texts(&found);
    assert_eq!(
        found.iter().map(|row| &row[1..]).collect::<Vec<_>>(),
        [["one", "kernel_cost", "v"], ["two", "kernel_cost", "v"]]
    );
    let columns = client
        .query(&format!(
            "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), \
             (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d \
             WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef), \
             pg_catalog.col_description(a.attrelid, a.attnum) IS NOT NULL \
             FROM pg_catalog.pg_attribute a WHERE a.attrelid = '{}' AND a.attnum > 0 ORDER BY a.attnum LIMIT 3",
            found[0][0]
        ))
        .unwrap();
    let expected = [
        ["function_id", "numeric", "null", "t"],
        ["kernel", "text", "null", "t"],
        ["launch_count", "bigint", "null", "t"],
    ];
    assert_eq!(texts(&columns), expected);
    assert!(client.query("SELECT 1 FROM pg_catalog.pg_index").unwrap().is_empty());
    assert_eq!(
        texts(&client.query("SELECT current_schema(), current_database()").unwrap()),
        [["one", "stallmap"]]
    );
    assert_eq!(texts(&client.query("SHOW search_path").unwrap()), [["one"]]);
    let listed =
        "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'two' AND table_name = 'launch'";
    assert_eq!(texts(&client.query(listed).unwrap()), [["1"]]);
}

#[test]
fn beyond_loopback_is_only_with_a_certificate() {
    let place = CommandFolder::new();
    check_addresses(&place, "--postgres");
    let run = |more: &[&str]| {
        let arguments = ["serve", "tiny.stallmap", "--postgres", "127.0.0.1:0"];
        place.run(&[&arguments[..], more].concat())
    };
    place.file("short", "1234567\n");
    assert!(run(&["--password-file", "short"]).expect_error(2).stderr.contains("fewer than 8"));
    run(&["--password-file", "missing"]).expect_error(5);
    place.file("empty.pem", "");
    run(&["--tls-cert", "empty.pem", "--tls-key", "empty.pem"]).expect_error(5);
}

#[test]
fn a_connection_can_be_encrypted() {
    let place = CommandFolder::new();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    place.file("cert.pem", made.cert.pem());
    place.file("key.pem", made.signing_key.serialize_pem());
    let server =
        PostgresServer::new(&place, &["tiny.stallmap", "--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let mut client =
        PostgresTestClient::encrypted(server.port, &server.password, made.cert.der().clone()).unwrap();
    assert_eq!(texts(&client.query("SELECT 1").unwrap()), [["1"]]);
    // On loopback the client may choose.
    assert_eq!(texts(&server.client().query("SELECT 1").unwrap()), [["1"]]);
}
