use super::*;

const PARSE: &[u8] = b"s\0SELECT 1\0\0\x02\0\0\0\x17\0\0\0\x14";
const BIND: &[u8] = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x01\0\x01";

#[test]
fn messages_are_read() {
    let Ok(ClientMessage::Parse { name, sql, types }) = ClientMessage::read(b'P', Bytes::from_static(PARSE))
    else {
        panic!("no Parse")
    };
    assert_eq!((name.as_str(), sql.as_str(), types.as_slice()), ("s", "SELECT 1", &[23, 20][..]));
    let Ok(ClientMessage::Bind(bind)) = ClientMessage::read(b'B', Bytes::from_static(BIND)) else {
        panic!("no Bind")
    };
    let binary = |value: Option<&'static [u8]>| (ValueFormat::Binary, value.map(Bytes::from_static));
    assert_eq!(bind.values, [binary(Some(b"ab")), binary(None)]);
    assert_eq!(bind.results, [ValueFormat::Binary]);
}

#[test]
fn a_message_that_is_cut_is_refused_and_nothing_else_is_read() {
    for (kind, whole) in [(b'P', PARSE), (b'B', BIND), (b'Q', b"SELECT 1\0"), (b'E', b"p\0\0\0\0\0")] {
        assert!(ClientMessage::read(kind, Bytes::copy_from_slice(whole)).is_ok());
        for length in 0..whole.len() {
            let cut = ClientMessage::read(kind, Bytes::copy_from_slice(&whole[..length]));
            assert!(cut.is_err(), "{kind}: {length} bytes");
        }
    }
    for length in 0..12 {
        let first =
            StartMessage::read(Bytes::copy_from_slice(&b"\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02"[..length]));
        assert!(first.is_err(), "{length} bytes");
    }
}

#[test]
fn a_first_message_says_its_version() {
    let start = StartMessage::read(Bytes::from_static(b"\0\x03\0\x02user\0me\0_pq_.x\0on\0\0")).unwrap();
    assert_eq!(start, StartMessage::Start { major: 3, minor: 2, options: vec!["_pq_.x".to_owned()] });
}

#[test]
fn replies_have_their_length() {
    let mut out = BytesMut::new();
    ServerMessage::Done("SELECT 1".into()).encode(&mut out);
    ServerMessage::Ready(b'I').encode(&mut out);
    assert_eq!(&out[..], b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I");
}
