//! An agent's session: from a finding to its source and to a query, and every kind of error.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::command::{CommandFolder, command};
use crate::serving::{DOUBLING, ENDLESS, RECURSIVE, doubled, too_large};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");

/// A client of one server.
struct McpTestClient {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl McpTestClient {
    fn new(place: &CommandFolder, captures: &[&str]) -> Self {
        let mut child = command(&place.path(""))
            .arg("mcp")
            .args(captures)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, input, output, next: 0 };
        let welcome =
            client.ask("initialize", &json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
        assert_eq!(welcome["result"]["protocolVersion"], "2025-06-18");
        assert_eq!(welcome["result"]["serverInfo"]["name"], "stallmap");
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }).to_string());
        let reply = self.receive();
        assert_eq!(reply["id"], id);
        reply
    }

    /// The answer of a tool, with the parts that every answer has.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let reply = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &reply["result"];
        assert_eq!(result["isError"], false, "{tool}: {reply}");
        let answer: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        for part in ["coverage", "lost", "query", "rows", "truncated", "schema_version"] {
            assert!(answer.get(part).is_some(), "{tool} has no {part}");
        }
        answer
    }

    /// The error of a tool.
    fn fail(&mut self, tool: &str, arguments: &Value) -> String {
        let reply = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(reply["result"]["isError"], true, "{tool}: {reply}");
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        serde_json::from_str::<Value>(text).unwrap()["error"].as_str().unwrap().to_owned()
    }

    /// Ends the server by the end of its input.
    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn an_agent_goes_from_a_finding_to_its_source_and_to_a_query() {
    let place = CommandFolder::new();
    let mut client = McpTestClient::new(&place, &[&format!("{DATA}/inference_views.stallmap")]);
    let tools = client.ask("tools/list", &json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["captures", "findings", "why", "source", "diff", "schema", "sql"]);
    let captures = client.call("captures", &json!({}));
    let name = captures["rows"][0]["name"].as_str().unwrap().to_owned();
    let cannot = captures["rows"][0]["cannot_answer"].to_string();
    assert!(cannot.contains("hardware counters") && !cannot.contains("stalls"), "{cannot}");
    let findings = client.call("findings", &json!({ "capture": name, "top": 1 }));
    let finding = findings["rows"][0].clone();
    assert_eq!((&finding["finding"], &finding["id"]), (&json!("uncoalesced_view"), &json!(1)));
    assert_eq!(findings["truncated"]["query_has_more_rows"], true);
    let evidence = client.call("sql", &json!({ "query": finding["query"] }));
    assert!(!evidence["rows"].as_array().unwrap().is_empty());
    let why = client.call("why", &json!({ "kernel": finding["kernel"], "tensor": "t() at :31" }));
    let wait = why["rows"][0].clone();
    assert!(wait["sentence"].as_str().unwrap().contains("`t() at :31`"), "{wait}");
    let source = client.call("source", &json!({ "kernel": wait["kernel_function_id"] }));
    assert_eq!(source["rows"][0]["kernel"], finding["kernel"]);
    let query = format!(
        "SELECT sum(samples) AS n FROM sample WHERE function_id = '{}' AND pc = {}",
        wait["function_id"].as_str().unwrap(),
        wait["pc"]
    );
    let counted = client.call("sql", &json!({ "query": query }));
    assert!(counted["rows"][0]["n"].as_f64().unwrap() > 0.0);
    let found = client.call("schema", &json!({ "search": "tensor samples" }));
    assert!(found["rows"].to_string().contains("tensor_stall_cost"));
    client.end();
}

#[test]
fn the_rows_of_waits_are_all_samples() {
    let place = CommandFolder::new();
    let mut client = McpTestClient::new(&place, &["tiny.stallmap"]);
    let waits = client.call("why", &json!({ "kernel": "a", "top": 200 }));
    let total: f64 =
        waits["rows"].as_array().unwrap().iter().map(|row| row["samples"].as_f64().unwrap()).sum();
    let sampled = client.call("sql", &json!({ "query": "SELECT sum(samples) AS n FROM sample" }));
    assert!((total - sampled["rows"][0]["n"].as_f64().unwrap()).abs() < 1e-9, "{total}");
    let lost = &sampled["lost"]["a"]["rows"];
    assert!(lost.to_string().contains("hardware buffer full"), "{lost}");
    client.end();
}

#[test]
fn two_captures_are_compared() {
    let place = CommandFolder::new();
    let captures = ["a", "b"].map(|name| {
        let file = if name == "a" { "inference_views" } else { "inference_views_contiguous" };
        format!("{name}={DATA}/{file}.stallmap")
    });
    let mut client = McpTestClient::new(&place, &[&captures[0], &captures[1]]);
    let diff = client.call("diff", &json!({ "by": "tensors" }));
    assert!(!diff["rows"].as_array().unwrap().is_empty() && diff["comparability"].is_array(), "{diff}");
    let counted = client.call("sql", &json!({ "query": "SELECT count(*) AS n FROM every.launch" }));
    assert_eq!(counted["rows"][0]["n"], 6);
    assert_eq!(client.call("findings", &json!({ "capture": "b" }))["coverage"].as_object().unwrap().len(), 1);
    client.end();
}

#[test]
fn errors_are_answers_and_the_session_goes_on() {
    let place = CommandFolder::new();
    let mut client = McpTestClient::new(&place, &["tiny.stallmap"]);
    for (tool, arguments, text) in [
        ("findings", json!({ "capture": "nine" }), "no capture has this name"),
        ("findings", json!({ "top": 201 }), "not a number from 1 to 200"),
        ("findings", json!({ "capture": 1 }), "not a text"),
        ("why", json!({}), "the filter is missing"),
        ("why", json!({ "kernels": "x" }), "did you mean `kernel`"),
        ("source", json!({}), "`kernel` is missing"),
        ("diff", json!({}), "a comparison needs two"),
        ("sql", json!({ "query": "SELEC 1" }), "SELEC"),
        ("sql", json!({ "query": "SELECT * FROM lanch" }), "launch"),
        ("sql", json!({ "query": "CREATE VIEW x AS SELECT 1" }), "changes the session"),
        ("sql", json!({ "query": "SET datafusion.execution.batch_size = 1" }), "changes the session"),
        ("sql", json!({ "query": "COPY launch TO 'x.csv'" }), "changes the session"),
        ("sql", json!({ "query": "SELECT * FROM 'tiny.stallmap'" }), ""),
        ("sql", json!({ "query": "SELECT 1; SELECT 2" }), ""),
    ] {
        let error = client.fail(tool, &arguments);
        assert!(error.starts_with("error: "), "{error}");
        assert!(error.contains(text), "{tool} {arguments}: {error}");
    }
    assert!(!place.path("x.csv").exists());
    let unknown = client.ask("tools/call", &json!({ "name": "shell", "arguments": {} }));
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(client.ask("resources/list", &json!({}))["error"]["code"], -32601);
    client.send("no JSON");
    assert_eq!(client.receive()["error"]["code"], -32700);
    client.send(&"x".repeat(3 << 20));
    assert_eq!(client.receive()["error"]["code"], -32700);
    client.send("{\"jsonrpc\":\"2.0\",\"id\":7}");
    assert_eq!(client.receive()["error"]["code"], -32600);
    let nothing = client.call("why", &json!({ "kernel": "no such kernel" }));
    assert!(nothing["no_rows_because"].as_str().unwrap().contains("no row matches"));
    let quoted = client.call("why", &json!({ "kernel": "' OR 1=1 --" }));
    assert_eq!(quoted["rows"], json!([]));
    let many = client.call("sql", &json!({ "query": "SELECT repeat('x', 9000) AS text FROM range(500)" }));
    assert!(many["truncated"]["texts_shortened"].as_u64().unwrap() > 0);
    assert!(many.to_string().len() < 40_000);
    client.end();
}

#[test]
fn a_call_ends_at_its_time_and_the_session_goes_on() {
    let place = CommandFolder::new();
    let mut client = McpTestClient::new(&place, &["tiny.stallmap", "--timeout", "1"]);
    for sql in [RECURSIVE, ENDLESS, &doubled()] {
        let error = client.fail("sql", &json!({ "query": sql }));
        assert!(error.contains("the call ran longer than 1 s") && error.contains("--timeout"), "{error}");
    }
    client.end();
    let mut client = McpTestClient::new(&place, &["tiny.stallmap"]);
    for (sql, part) in too_large().into_iter().chain([(DOUBLING.to_owned(), "`||` makes more than")]) {
        let error = client.fail("sql", &json!({ "query": sql }));
        assert!(error.contains(part), "{error}");
    }
    let counted = client.call("sql", &json!({ "query": "SELECT count(*) AS n FROM launch" }));
    assert_eq!(counted["rows"][0]["n"], 3);
    client.end();
}

#[test]
fn a_file_that_is_no_capture_ends_the_server() {
    let place = CommandFolder::new();
    place.file("no.stallmap", "text");
    place.run(&["mcp", "no.stallmap"]).expect_error(3);
    assert_eq!(place.run(&["mcp"]).code, Some(2));
}
