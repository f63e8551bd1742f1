//! JSON and what programs write in its place.

use std::io::Read as _;

use super::*;

/// The records of `events`, each as its members, and the damages.
fn read(text: &[u8]) -> (Vec<String>, Vec<(&'static str, u64)>) {
    let mut json = JsonStream::new(text, Path::new("x"));
    let mut found = Vec::new();
    json.document(|json| {
        json.object(|json, key| {
            if key == "events" {
                return json.records(|json| {
                    found.push(members(json)?.join(" "));
                    Ok(())
                });
            }
            found.push(format!("{key}:{}", json.scalar()?.unwrap_or_default()));
            Ok(())
        })
    })
    .unwrap();
    (found, json.damage().rows().map(|(kind, count, _)| (kind, count)).collect())
}

/// The members of an object as text.
fn members(json: &mut JsonStream<impl io::Read>) -> ReadResult<Vec<String>> {
    let mut members = Vec::new();
    json.object(|json, key| {
        members.push(format!("{key}={}", json.scalar()?.unwrap_or_default()));
        Ok(())
    })?;
    Ok(members)
}

#[test]
fn json_has_no_damage() {
    let text =
        br#" {"events": [ {"a" : 1.5e-3, "b":"x\"y"} , {"a":true,"b":null}, {"a":{"c":[1,{}]}}] , "z": [] }
    "#;
    assert_eq!(
        read(text),
        (vec!["a=1.5e-3 b=x\"y".into(), "a=true b=".into(), "a=".into(), "z:".into()], vec![])
    );
}

#[test]
fn values_and_texts_that_json_lacks_are_repaired() {
    let (found, damage) = read(
        b"{\"events\":[{\"a\":inf,\"b\":-nan(ind)},{\"a\":\"x\"y\",\"b\":\"\xff\"},,{\"a\":\"C:\\_\"},]}",
    );
    assert_eq!(found, ["a= b=", "a=x\"y b=\u{fffd}", "a=C:\\_"]);
    assert_eq!(
        damage,
        [
            ("backslashes in texts that are not escaped", 1),
            ("commas without a value", 2),
            ("quotes in texts that are not escaped", 1),
            ("texts that are not UTF-8", 1),
            ("values that JSON lacks", 2)
        ]
    );
}

#[test]
fn a_broken_record_costs_one_record() {
    let (found, damage) =
        read(br#"{"events":[{"a":"{"b": "c", "d": "e"}(1): f"},{"a":2},{"a" 3},{"a":4}],"z":5}"#);
    assert_eq!(found, ["a={\"b\": \"c d=e", "a=2", "a=4", "z:5"]);
    assert!(damage.contains(&("records that are not JSON", 2)), "{damage:?}");
}

#[test]
fn a_file_without_an_end_has_what_comes_before() {
    let (found, damage) = read(br#"{"y":1,"events":[{"a":1},{"a":2},{"a":"#);
    assert_eq!(found, ["y:1", "a=1", "a=2"]);
    assert_eq!(damage, [("the rest of the file, which is not JSON", 1)]);
    let (found, damage) = read(b"{\"y\":1}\n\0\0");
    assert_eq!(
        (found.as_slice(), damage.as_slice()),
        (&["y:1".to_owned()][..], &[("bytes behind the end of the JSON", 2)][..])
    );
}

/// A reader that gives one byte at a time.
struct SlowReader<'a>(&'a [u8]);

impl io::Read for SlowReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.take(1).read(buffer).inspect(|count| self.0 = &self.0[*count..])
    }
}

#[test]
fn the_sizes_of_reads_change_nothing() {
    let text = br#"{"a":"x, y","b,":[1,"\"",{"c":"d"}],"e":1.5e3}"#;
    let mut drops = JsonStream::new(SlowReader(text), Path::new("x"));
    let mut found = Vec::new();
    drops.document(|json| members(json).map(|members| found = members)).unwrap();
    assert_eq!(found, ["a=x, y", "b,=", "e=1.5e3"]);
    assert_eq!(drops.damage().rows().count(), 0);
}

#[test]
fn bounds_are_errors() {
    let end = |text: &[u8]| JsonStream::new(text, Path::new("x")).document(JsonStream::skip).is_err();
    assert!(end("[".repeat(1000).as_bytes()));
    assert!(end(format!("[\"{}\"]", "x".repeat(2 << 20)).as_bytes()));
    let mut json =
        JsonStream::new(b"[".chain(io::repeat(b' ').take(1 << 26)).chain(&b"1]"[..]), Path::new("x"));
    assert_eq!(json.integers().unwrap(), [1]);
    let mut empty = JsonStream::new(&b" "[..], Path::new("x"));
    assert!(empty.is_array().is_err() && empty.failure().is_some());
}
