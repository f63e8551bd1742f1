//! Clients of `stallmap serve --flight`: tokens, statements, names, limits, TLS, and what is refused.

mod client;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{Array as _, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Schema};
use arrow_flight::sql::{
    CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTables, CommandPreparedStatementQuery,
    ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{IpcMessage, Ticket};
use futures::TryStreamExt as _;
use tonic::Code;

use crate::command::CommandFolder;
use crate::serving::{ENDLESS, RECURSIVE, ServeProcess, check_addresses, statements_on, too_large};
use client::{FlightTestClient, csv, texts, ticket};

const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");

/// A running server.
struct FlightServer {
    _serving: ServeProcess,
    port: u16,
    token: String,
}

impl FlightServer {
    fn new(place: &CommandFolder, arguments: &[&str]) -> Self {
        let (serving, [address, token]) = ServeProcess::start(place, "--flight", arguments);
        let (_, address) = address.split_once("://127.0.0.1:").unwrap();
        let port = address.split_whitespace().next().unwrap().parse().unwrap();
        let token = token.strip_prefix("token: ").unwrap().to_owned();
        Self { _serving: serving, port, token }
    }

    fn client(&self) -> FlightTestClient {
        FlightTestClient::connect(self.port, &self.token)
    }
}

/// A statement as a ticket, as a client could forge it.
fn forged(handle: &[u8]) -> Ticket {
    let query = TicketStatementQuery { statement_handle: handle.to_vec().into() };
    Ticket { ticket: prost::Message::encode_to_vec(&query.as_any()).into() }
}

#[test]
fn rows_are_those_of_the_command_line() {
    let place = CommandFolder::new();
    let bundled = format!("{TESTDATA}/inference_views.stallmap");
    for capture in ["tiny.stallmap", &bundled] {
        let server = FlightServer::new(&place, &[capture]);
        assert_eq!(server.token.len(), 32);
        let mut client = server.client();
        for sql in [
            "SELECT kernel, launch_count, samples, share FROM kernel_cost ORDER BY kernel",
            "SELECT kernel_id, ordinal, grid_x, block_x, cluster_x, device_id, op_id FROM launch ORDER BY ordinal LIMIT 20",
            "SELECT dtype, is_contiguous, element_bytes, count(*) AS n FROM tensor GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
            "SELECT 1 AS a, NULL AS b, 'x' AS c, TRUE AS d, 1.5 AS e, X'0aff' AS f;",
            "SHOW datafusion.execution.batch_size",
        ] {
            let printed = place.run(&["sql", capture, "--format", "csv", "-c", sql]);
            assert_eq!(csv(&client.query(sql).unwrap()), printed.expect_ok().stdout, "{capture}: {sql}");
        }
        assert!(csv(&client.query("EXPLAIN SELECT 1").unwrap()).contains("physical_plan"));
        let none = client.query("SELECT * FROM launch WHERE false").unwrap();
        assert_eq!(none.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    }
}

#[test]
fn a_token_is_needed() {
    let place = CommandFolder::new();
    let server = FlightServer::new(&place, &["tiny.stallmap"]);
    for mut client in
        [FlightTestClient::anonymous(server.port), FlightTestClient::connect(server.port, "0123456789abcdef")]
    {
        let (code, text) = client.refused("SELECT 1");
        assert_eq!(code, Code::Unauthenticated);
        assert!(text.contains("\nhint: the server printed it"), "{text}");
        let ticket = forged(b"\x0a\x08SELECT 1");
        assert_eq!(client.fetch(ticket).unwrap_err().code(), Code::Unauthenticated);
        assert!(client.wait(async |client| client.get_catalogs().await).is_err());
    }
    let mut client = FlightTestClient::anonymous(server.port);
    let wrong = client.wait(async |client| client.handshake("any", "0123456789abcdef").await);
    assert!(wrong.is_err());
    // A handshake returns another token, which is as good.
    client.wait(async |client| client.handshake("any", &server.token).await).unwrap();
    assert_ne!(client.inner.token().unwrap(), &server.token);
    assert_eq!(csv(&client.query("SELECT 1 AS a").unwrap()), "a\n1\n");
    place.file("secret", "correct horse\nsecond line\n");
    let server = FlightServer::new(&place, &["tiny.stallmap", "--password-file", "secret"]);
    assert_eq!(server.token, "as given");
    let mut client = FlightTestClient::connect(server.port, "correct horse");
    client.query("SELECT 1").unwrap();
}

#[test]
fn nothing_is_written_and_no_file_is_read() {
    let place = CommandFolder::new();
    place.file("secret.csv", "a\n1\n");
    let server = FlightServer::new(&place, &["tiny.stallmap"]);
    let mut client = server.client();
    let file = place.path("secret.csv").display().to_string();
    for sql in statements_on(&file) {
        let bytes = sql.len().try_into().unwrap();
        // A ticket is checked as its statement is.
        let ticket = forged(&[&[0x0a, bytes], sql.as_bytes()].concat());
        assert!(client.fetch(ticket).is_err(), "{sql}");
        assert!(client.query(&sql).is_err(), "{sql}");
        assert!(client.wait(async |client| client.prepare(sql.clone(), None).await).is_err(), "{sql}");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "a\n1\n");
    for (sql, code) in [
        ("CREATE VIEW v AS SELECT 1", Code::PermissionDenied),
        ("CREATE TABLE t AS SELECT 1", Code::PermissionDenied),
        ("DROP VIEW kernel_cost", Code::PermissionDenied),
        ("DELETE FROM launch", Code::PermissionDenied),
        ("SET datafusion.runtime.memory_limit = '1T'", Code::PermissionDenied),
        ("SELECT nothing FROM launch", Code::InvalidArgument),
        ("SELECT * FROM nothing", Code::NotFound),
        ("SELEC 1", Code::InvalidArgument),
        ("SELECT 1; SELECT 2", Code::InvalidArgument),
        ("", Code::InvalidArgument),
        ("SELECT 1 / 0", Code::InvalidArgument),
    ] {
        assert_eq!(client.refused(sql).0, code, "{sql}");
    }
    let (_, text) = client.refused("SELECT kernelid FROM launch");
    assert!(text.contains("^^^^^^^^") && text.ends_with("hint: did you mean `kernel_id`?"), "{text}");
    let update =
        client.wait(async |client| client.execute_update("DELETE FROM launch".to_owned(), None).await);
    assert!(update.is_err());
    assert_eq!(client.fetch(forged(b"\xff\xff")).unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn prepared_statements_take_values() {
    let place = CommandFolder::new();
    let server = FlightServer::new(&place, &["tiny.stallmap"]);
    let mut client = server.client();
    let sql = "SELECT ordinal, grid_x FROM launch WHERE ordinal >= $1 ORDER BY 1";
    let row = |values: Vec<i64>| {
        RecordBatch::try_from_iter([("$1", Arc::new(Int64Array::from(values)) as ArrayRef)]).unwrap()
    };
    let mut rows_of = |sql: &str, values: Option<RecordBatch>| {
        let mut names = Vec::new();
        let info = client.wait(async |client| {
            let mut statement = client.prepare(sql.to_owned(), None).await?;
            names = statement.parameter_schema()?.fields().iter().map(|field| field.name().clone()).collect();
            if let Some(values) = values {
                statement.set_parameters(values)?;
            }
            let info = statement.execute().await?;
            statement.close().await?;
            Ok(info)
        })?;
        let described = info.clone().try_decode_schema().unwrap();
        let (schema, batches) = client.fetch(ticket(info))?;
        assert_eq!(described, *schema);
        Ok::<_, tonic::Status>((names, csv(&batches)))
    };
    let (names, all) = rows_of(sql, Some(row(vec![0]))).unwrap();
    assert_eq!(names, ["$1"]);
    assert!(all.lines().count() > 2, "{all}");
    let (_, later) = rows_of(sql, Some(row(vec![1]))).unwrap();
    assert_eq!(later.lines().count(), all.lines().count() - 1);
    assert_eq!(rows_of("SELECT 1 AS a", None).unwrap(), (Vec::new(), "a\n1\n".to_owned()));
    let text = RecordBatch::try_from_iter([("$1", Arc::new(StringArray::from(vec!["it's"])) as ArrayRef)]);
    let (_, quoted) = rows_of("SELECT $1 AS a", Some(text.unwrap())).unwrap();
    assert_eq!(quoted, "a\nit's\n");
    for values in [row(vec![]), row(vec![1, 2])] {
        assert_eq!(rows_of(sql, Some(values)).unwrap_err().code(), Code::InvalidArgument);
    }
    // Without a value, and with a handle that was changed.
    assert!(rows_of(sql, None).is_err());
    let query = CommandPreparedStatementQuery { prepared_statement_handle: vec![0x0a, 0xff].into() };
    let changed = Ticket { ticket: prost::Message::encode_to_vec(&query.as_any()).into() };
    assert_eq!(client.fetch(changed).unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn the_catalog_lists_captures_tables_and_columns() {
    let place = CommandFolder::new();
    fs::create_dir(place.path("runs")).unwrap();
    for name in ["one.stallmap", "two.stallmap"] {
        fs::copy(place.path("tiny.stallmap"), place.path("runs").join(name)).unwrap();
    }
    let server = FlightServer::new(&place, &["runs"]);
    let mut client = server.client();
    let info = client.wait(async |client| client.get_catalogs().await).unwrap();
    assert_eq!(csv(&client.fetch(ticket(info)).unwrap().1), "catalog_name\nstallmap\n");
    let query = CommandGetDbSchemas::default();
    let info = client.wait(async |client| client.get_db_schemas(query).await).unwrap();
    let rows = client.fetch(ticket(info)).unwrap().1;
    assert_eq!(texts(&rows, 1), ["every", "one", "two"]);
    let info = client.wait(async |client| client.get_table_types().await).unwrap();
    assert_eq!(csv(&client.fetch(ticket(info)).unwrap().1), "table_type\nTABLE\nVIEW\n");
    let query = CommandGetTables {
        db_schema_filter_pattern: Some("t%".to_owned()),
        table_name_filter_pattern: Some("kernel_cost".to_owned()),
        include_schema: true,
        ..CommandGetTables::default()
    };
    let info = client.wait(async |client| client.get_tables(query).await).unwrap();
    let rows = client.fetch(ticket(info)).unwrap().1;
    assert_eq!(
        (texts(&rows, 1), texts(&rows, 2), texts(&rows, 3)),
        (vec!["two"], vec!["kernel_cost"], vec!["VIEW"])
    );
    let bytes = rows[0].column(4).as_any().downcast_ref::<BinaryArray>().unwrap().value(0).to_vec();
    let listed = Schema::try_from(IpcMessage(bytes.into())).unwrap();
    let (described, _) = client.described("SELECT * FROM two.kernel_cost").unwrap();
    let types = |schema: &Schema| -> Vec<(String, DataType)> {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    assert_eq!(types(&listed), types(&described));
    assert!(listed.field(0).metadata()["ARROW:FLIGHT:SQL:REMARKS"].len() > 10);
    // Every table and view that is listed can be described as such.
    let query = CommandGetTables { include_schema: true, ..CommandGetTables::default() };
    let info = client.wait(async |client| client.get_tables(query).await).unwrap();
    let rows = client.fetch(ticket(info)).unwrap().1;
    let views = csv(&client
        .query("SELECT count(*) AS n FROM information_schema.tables WHERE table_schema = 'one'")
        .unwrap());
    let count = texts(&rows, 1).iter().filter(|schema| **schema == "one").count();
    assert_eq!(views, format!("n\n{count}\n"));
    assert_eq!(csv(&client.query("SELECT count(*) > 1 AS is FROM every.launch").unwrap()), "is\ntrue\n");
    let query = CommandGetPrimaryKeys { table: "launch".to_owned(), ..CommandGetPrimaryKeys::default() };
    let info = client.wait(async |client| client.get_primary_keys(query).await).unwrap();
    let (schema, rows) = client.fetch(ticket(info)).unwrap();
    assert_eq!((schema.fields().len(), rows.iter().map(RecordBatch::num_rows).sum()), (6, 0));
    let infos = vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerReadOnly];
    let info = client.wait(async |client| client.get_sql_info(infos).await).unwrap();
    assert_eq!(client.fetch(ticket(info)).unwrap().1[0].num_rows(), 2);
}

#[test]
fn a_query_ends_at_its_time_or_when_its_client_leaves() {
    let place = CommandFolder::new();
    let server = FlightServer::new(&place, &["tiny.stallmap", "--timeout", "2"]);
    let mut client = server.client();
    let begin = Instant::now();
    let (code, text) = client.refused(ENDLESS);
    assert_eq!(code, Code::DeadlineExceeded);
    assert!(text.contains("longer than 2 s") && text.contains("--timeout"), "{text}");
    assert!(begin.elapsed() >= Duration::from_secs(2));
    let server = FlightServer::new(&place, &["tiny.stallmap", "--connections", "1"]);
    let mut client = server.client();
    let (_, endless) = client.described(ENDLESS).unwrap();
    let left = client.wait(async |client| {
        let mut other = client.clone();
        let asked = client.do_get(endless).await?;
        assert_eq!(other.execute("SELECT 1".to_owned(), None).await.err().map(|_| ()), Some(()));
        drop(asked);
        Ok(())
    });
    left.unwrap();
    // Its place is free at once, not after the 60 seconds of its time.
    let deadline = Instant::now() + Duration::from_secs(30);
    while client.query("SELECT 1").is_err() {
        assert!(Instant::now() < deadline, "the query goes on without its client");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_statement_that_is_too_large_is_refused_and_the_next_one_answered() {
    let place = CommandFolder::new();
    let server = FlightServer::new(&place, &["tiny.stallmap"]);
    let mut client = server.client();
    for (sql, part) in too_large() {
        let (code, text) = client.refused(&sql);
        assert!(code == Code::InvalidArgument && text.contains(part), "{code}: {text}");
        client.query("SELECT 1").unwrap();
    }
    let server = FlightServer::new(&place, &["tiny.stallmap", "--timeout", "1"]);
    assert_eq!(server.client().refused(RECURSIVE).0, Code::DeadlineExceeded);
}

#[test]
fn a_long_answer_is_streamed_whole() {
    let place = CommandFolder::new();
    let server = FlightServer::new(&place, &["tiny.stallmap", "--memory", "64M"]);
    let mut client = server.client();
    // 200 MB of rows pass a server that may hold 64 MB.
    let (_, long) =
        client.described("SELECT value, repeat('x', 1000) FROM generate_series(1, 200000)").unwrap();
    let (mut rows, mut batches) = (0, 0);
    let counted = client.wait(async |client| {
        let mut stream = client.do_get(long).await?;
        while let Some(batch) = stream.try_next().await? {
            rows += batch.num_rows();
            batches += 1;
        }
        Ok(())
    });
    counted.unwrap();
    assert_eq!(rows, 200_000);
    assert!(batches > 50, "{batches} batches");
    let too_large = "SELECT count(*) FROM (SELECT DISTINCT repeat(CAST(value AS VARCHAR), 40) AS x, \
                     array_agg(repeat('x', 1000)) FROM generate_series(1, 400000) GROUP BY x)";
    assert_eq!(client.refused(too_large).0, Code::ResourceExhausted);
    client.query("SELECT 1").unwrap();
}

#[test]
fn a_client_that_stops_reading_does_not_hold_its_query() {
    let place = CommandFolder::new();
    let server = FlightServer::new(&place, &["tiny.stallmap", "--timeout", "2", "--connections", "1"]);
    let mut client = server.client();
    let (_, long) =
        client.described("SELECT value, repeat('x', 1000) FROM generate_series(1, 2000000)").unwrap();
    let read = client.wait(async |client| {
        let mut stream = client.do_get(long).await?;
        assert!(stream.try_next().await?.is_some());
        tokio::time::sleep(Duration::from_secs(4)).await;
        // The query is over, although its rows were not read.
        client.execute("SELECT 1".to_owned(), None).await?;
        while stream.try_next().await?.is_some() {}
        Ok(())
    });
    assert_eq!(read.unwrap_err().code(), Code::DeadlineExceeded);
}

#[test]
fn connections_are_counted_and_one_that_leaves_makes_room() {
    let place = CommandFolder::new();
    let server = FlightServer::new(&place, &["tiny.stallmap", "--connections", "2"]);
    let (mut first, mut second) = (server.client(), server.client());
    first.query("SELECT 1").unwrap();
    second.query("SELECT 1").unwrap();
    let (code, text) = server.client().refused("SELECT 1");
    assert_eq!(code, Code::ResourceExhausted);
    assert!(text.contains("all 2 connections are taken") && text.contains("--connections"), "{text}");
    drop(second);
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.client().query("SELECT 1").is_err() {
        assert!(Instant::now() < deadline, "its place stays taken");
        thread::sleep(Duration::from_millis(50));
    }
    first.query("SELECT 1").unwrap();
}

#[test]
fn broken_messages_end_only_their_own_connection() {
    let place = CommandFolder::new();
    let server = FlightServer::new(&place, &["tiny.stallmap"]);
    let mut client = server.client();
    let garbage: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0\0\0\x08\0\x03\0\0",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x16\x03\x01\x02\0\x01\0",
    ];
    for bytes in garbage {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(bytes).unwrap();
        let begin = Instant::now();
        // The server closes it, at the latest when no token came for ten seconds.
        drop(stream.read_to_end(&mut Vec::new()));
        assert!(begin.elapsed() < Duration::from_secs(20), "{bytes:?}");
    }
    let long = format!("SELECT '{}'", "x".repeat(2 << 20));
    assert_eq!(client.refused(&long).0, Code::OutOfRange);
    client.query("SELECT 1").unwrap();
}

#[test]
fn beyond_loopback_is_only_with_a_certificate() {
    let place = CommandFolder::new();
    check_addresses(&place, "--flight");
    let run = |more: &[&str]| {
        let arguments = ["serve", "tiny.stallmap", "--flight", "127.0.0.1:0"];
        place.run(&[&arguments[..], more].concat())
    };
    run(&["--password-file", "missing"]).expect_error(5);
    run(&["--postgres", "127.0.0.1:0"]).expect_error(2);
}

#[test]
fn a_connection_can_be_encrypted() {
    let place = CommandFolder::new();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    place.file("cert.pem", made.cert.pem());
    place.file("key.pem", made.signing_key.serialize_pem());
    let server =
        FlightServer::new(&place, &["tiny.stallmap", "--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let mut client = FlightTestClient::encrypted(server.port, &server.token, made.cert.der().clone());
    assert_eq!(csv(&client.query("SELECT 1 AS a").unwrap()), "a\n1\n");
}
