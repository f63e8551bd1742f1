//! Large captures that another program cuts or writes to while they are read.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
use serde_json::{Value, json};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::command::{CommandFolder, command};

const NAME: &str = "large.stallmap";
/// Captures up to 32 MiB are read at once.
const PIECES: usize = 36;
const PIECE_BYTES: usize = 1 << 20;

/// The small capture with a table that makes it large.
fn large(place: &CommandFolder) -> File {
    let reader = CaptureReader::open(&place.path("tiny.stallmap")).unwrap();
    let mut writer = CaptureWriter::create(&place.path(NAME), CaptureForm::File).unwrap();
    for table in reader.tables() {
        writer.take_table(&reader, table).unwrap();
    }
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.entry(&file.path).unwrap()).unwrap();
    }
    // Numbers that nothing compresses (xorshift).
    let mut number = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..PIECES {
        let mut bytes = vec![0; PIECE_BYTES];
        for place in bytes.as_chunks_mut::<8>().0 {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            *place = number.to_le_bytes();
        }
        let column: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&bytes]));
        writer.append("noise", &RecordBatch::try_from_iter([("piece", column)]).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let file = File::options().write(true).open(place.path(NAME)).unwrap();
    assert!(file.metadata().unwrap().len() > 33 << 20);
    file
}

/// Asks `stallmap serve --stdio` for rows, and returns their last frame.
fn ask(input: &mut ChildStdin, output: &mut ChildStdout, sql: &str) -> (char, Value) {
    let text = json!({ "sql": sql }).to_string();
    input.write_all(&u32::try_from(text.len()).unwrap().to_le_bytes()).unwrap();
    input.write_all(text.as_bytes()).unwrap();
    loop {
        let mut head = [0; 5];
        output.read_exact(&mut head).unwrap();
        let mut content = vec![0; u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize];
        output.read_exact(&mut content).unwrap();
        if matches!(head[0], b'D' | b'E') {
            return (head[0].into(), serde_json::from_slice(&content).unwrap());
        }
    }
}

#[test]
fn a_server_survives_a_change_and_says_so() {
    for change in
        [|file: &File| file.set_len(10 << 20), |file: &File| file.set_modified(SystemTime::UNIX_EPOCH)]
    {
        let place = CommandFolder::new();
        let file = large(&place);
        let mut server = command(&place.path(""))
            .args(["serve", "--stdio", NAME])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, mut output) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
        let mut ask = |sql: &str| ask(&mut input, &mut output, sql);
        let pieces = "SELECT count(DISTINCT piece) FROM noise";
        assert_eq!(ask(pieces).0, 'D');
        change(&file).unwrap();
        for sql in [pieces, "SELECT * FROM pc_sample"] {
            let (letter, error) = ask(sql);
            let text = error["error"].as_str().unwrap_or_default();
            assert_eq!((letter, &error["code"]), ('E', &json!(3)), "{error}");
            assert!(text.contains("capture changed while it was read: `large.stallmap`"), "{error}");
            let hint = "run the command again, on a complete file that no program writes to";
            assert_eq!(error["hint"], json!(hint), "{error}");
        }
        assert_eq!(ask("SELECT 1").0, 'D');
        drop((input, output));
        assert_eq!(server.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_command_ends_with_an_error() {
    let place = CommandFolder::new();
    for wait_ms in [20, 60, 150] {
        let file = large(&place);
        let cut = thread::spawn(move || {
            thread::sleep(Duration::from_millis(wait_ms));
            file.set_len(1 << 20).unwrap();
        });
        let ran =
            place.run(&["sql", NAME, "-c", "SELECT count(DISTINCT piece) FROM noise, generate_series(1, 9)"]);
        cut.join().unwrap();
        // It may have ended before.
        if ran.code != Some(0) {
            ran.expect_error(3);
        }
        std::fs::remove_file(place.path(NAME)).unwrap();
    }
}
