//! Pickles of builtin values, read without running anything.
//!
//! Values are numbers into lists of the pickle: shared objects stay shared, cycles do no harm, and a value of any depth
//! needs no recursion. Every opcode that names a class or calls a function is refused.

use std::collections::HashMap;
use std::io::Read;

/// Most bytes of one text.
const MAX_TEXT_BYTES: u64 = 1 << 20;
/// Most objects of a pickle.
const MAX_OBJECTS: usize = 400_000_000;

/// The first opcode since protocol 2.
const PROTOCOL: u8 = 0x80;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PickleValue {
    /// None, and everything that the import does not read.
    Nothing,
    /// An integer that fits, or a truth value.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(usize),
    /// A list or a tuple.
    List(usize),
    /// A dictionary.
    Dict(usize),
}

/// The objects of a pickle.
#[derive(Debug, Default)]
pub struct PickleObjects {
    texts: Vec<String>,
    lists: Vec<Vec<PickleValue>>,
    dicts: Vec<Vec<(PickleValue, PickleValue)>>,
}

impl PickleObjects {
    /// Reads a pickle. Returns its objects and the outermost one. An error has a reason without the file.
    pub fn read(reader: impl Read) -> Result<(Self, PickleValue), String> {
        let mut machine = PickleMachine::new(reader);
        let mut code = machine.bytes::<1>()?[0];
        let has_head = code == PROTOCOL;
        let refused = |reason: String| {
            if has_head { reason } else { format!("it is no pickle of protocol 2 or later, and {reason}") }
        };
        while code != b'.' {
            machine.step(code).map_err(refused)?;
            code = machine.bytes::<1>().map_err(refused)?[0];
        }
        let root = machine.pop().map_err(refused)?;
        Ok((machine.pickle, root))
    }

    /// A value of a dictionary. Nothing for everything else.
    pub fn get(&self, value: PickleValue, key: &str) -> PickleValue {
        let PickleValue::Dict(place) = value else { return PickleValue::Nothing };
        let entries = self.dicts.get(place).map_or(&[][..], Vec::as_slice);
        entries
            .iter()
            .rev()
            .find(|(name, _)| self.text(*name) == Some(key))
            .map_or(PickleValue::Nothing, |(_, value)| *value)
    }

    /// The elements of a list or tuple. None for everything else.
    pub fn items(&self, value: PickleValue) -> &[PickleValue] {
        let PickleValue::List(place) = value else { return &[] };
        self.lists.get(place).map_or(&[], Vec::as_slice)
    }

    /// A text.
    pub fn text(&self, value: PickleValue) -> Option<&str> {
        let PickleValue::Text(place) = value else { return None };
        self.texts.get(place).map(String::as_str)
    }
}

impl PickleValue {
    /// An integer.
    pub const fn integer(self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(number) } else { None }
    }
}

/// The state of reading.
struct PickleMachine<R> {
    reader: R,
    pickle: PickleObjects,
    stack: Vec<PickleValue>,
    marks: Vec<usize>,
    memo: HashMap<u64, PickleValue>,
}

impl<R: Read> PickleMachine<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            pickle: PickleObjects::default(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        }
    }

    /// Runs one opcode of protocols 0 to 5 that makes builtin values.
    fn step(&mut self, code: u8) -> Result<(), String> {
        match code {
            PROTOCOL => drop(self.bytes::<1>()?),
            0x95 => drop(self.bytes::<8>()?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.marked()?),
            b'N' => self.push(PickleValue::Nothing)?,
            0x88 | 0x89 => self.push(PickleValue::Integer(i64::from(code == 0x88)))?,
            b'J' => {
                let number = i32::from_le_bytes(self.bytes()?);
                self.push(PickleValue::Integer(number.into()))?;
            }
            b'K' => {
                let number = self.bytes::<1>()?[0];
                self.push(PickleValue::Integer(number.into()))?;
            }
            b'M' => {
                let number = u16::from_le_bytes(self.bytes()?);
                self.push(PickleValue::Integer(number.into()))?;
            }
            0x8a => {
                let length = self.bytes::<1>()?[0];
                self.long(length.into())?;
            }
            b'G' => {
                let number = f64::from_be_bytes(self.bytes()?);
                self.push(PickleValue::Float(number))?;
            }
            b'X' | 0x8c | 0x8d | b'U' | b'C' | b'T' | b'B' | 0x8e => self.string(code)?,
            b']' | b')' => self.list(Vec::new())?,
            b'}' => self.dict(Vec::new())?,
            b'l' | b't' => {
                let items = self.marked()?;
                self.list(items)?;
            }
            b'd' => {
                let items = self.marked()?;
                self.dict(pairs(&items))?;
            }
            0x85..=0x87 => self.tuple(usize::from(code - 0x84))?,
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])?;
            }
            b'e' => {
                let items = self.marked()?;
                self.append(items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(vec![(key, value)])?;
            }
            b'u' => {
                let items = self.marked()?;
                self.set(pairs(&items))?;
            }
            0x94 | b'q' | b'r' | b'h' | b'j' => self.remember(code)?,
            _ => return Err(format!("its opcode {} is not of a builtin value", named(code))),
        }
        Ok(())
    }

    /// Opcodes of the memo.
    fn remember(&mut self, code: u8) -> Result<(), String> {
        let place = match code {
            0x94 => self.memo.len() as u64,
            b'q' | b'h' => self.bytes::<1>()?[0].into(),
            _ => u32::from_le_bytes(self.bytes()?).into(),
        };
        if matches!(code, b'h' | b'j') {
            let value =
                self.memo.get(&place).copied().ok_or("it refers to an object that it does not have")?;
            return self.push(value);
        }
        let top = *self.stack.last().ok_or("its stack is empty")?;
        self.memo.insert(place, top);
        Ok(())
    }

    fn string(&mut self, code: u8) -> Result<(), String> {
        let length = match code {
            0x8c | b'U' | b'C' => self.bytes::<1>()?[0].into(),
            0x8d | 0x8e => u64::from_le_bytes(self.bytes()?),
            _ => u32::from_le_bytes(self.bytes()?).into(),
        };
        if length > MAX_TEXT_BYTES {
            return Err("a text has more than 1 MiB".to_owned());
        }
        let mut bytes = Vec::new();
        let count =
            self.reader.by_ref().take(length).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if count as u64 != length {
            return Err("it is truncated".to_owned());
        }
        self.pickle.texts.push(String::from_utf8_lossy(&bytes).into_owned());
        self.push(PickleValue::Text(self.pickle.texts.len() - 1))
    }

    /// An integer of some bytes. One beyond 64 bits is nothing, except addresses that use the sign bit.
    fn long(&mut self, length: usize) -> Result<(), String> {
        let mut bytes = [0; 255];
        let digits = bytes.get_mut(..length).ok_or("an integer is too long")?;
        self.reader.read_exact(digits).map_err(|_| "it is truncated")?;
        let sign = if digits.last().is_some_and(|last| *last >= 0x80) { 0xff } else { 0 };
        let mut wide = [sign; 16];
        let value = if length <= 16 {
            wide.iter_mut().zip(digits).for_each(|(to, from)| *to = *from);
            i64::try_from(i128::from_le_bytes(wide)).map_or(PickleValue::Nothing, PickleValue::Integer)
        } else {
            PickleValue::Nothing
        };
        self.push(value)
    }

    fn list(&mut self, items: Vec<PickleValue>) -> Result<(), String> {
        self.pickle.lists.push(items);
        self.push(PickleValue::List(self.pickle.lists.len() - 1))
    }

    fn dict(&mut self, entries: Vec<(PickleValue, PickleValue)>) -> Result<(), String> {
        self.pickle.dicts.push(entries);
        self.push(PickleValue::Dict(self.pickle.dicts.len() - 1))
    }

    fn tuple(&mut self, length: usize) -> Result<(), String> {
        let start = self.stack.len().checked_sub(length).ok_or("its stack is empty")?;
        let items = self.stack.split_off(start);
        self.list(items)
    }

    fn append(&mut self, items: Vec<PickleValue>) -> Result<(), String> {
        match self.stack.last() {
            Some(PickleValue::List(place)) => {
                self.pickle.lists.get_mut(*place).map(|list| list.extend(items))
            }
            _ => None,
        }
        .ok_or_else(|| "it appends to an object that is not a list".to_owned())
    }

    fn set(&mut self, entries: Vec<(PickleValue, PickleValue)>) -> Result<(), String> {
        match self.stack.last() {
            Some(PickleValue::Dict(place)) => {
                self.pickle.dicts.get_mut(*place).map(|dict| dict.extend(entries))
            }
            _ => None,
        }
        .ok_or_else(|| "it sets a key of an object that is not a dictionary".to_owned())
    }

    fn push(&mut self, value: PickleValue) -> Result<(), String> {
        let objects =
            self.stack.len() + self.pickle.texts.len() + self.pickle.lists.len() + self.pickle.dicts.len();
        if objects > MAX_OBJECTS {
            return Err(format!("it has more than {MAX_OBJECTS} objects"));
        }
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Result<PickleValue, String> {
        self.stack.pop().ok_or_else(|| "its stack is empty".to_owned())
    }

    /// The values since the last mark.
    fn marked(&mut self) -> Result<Vec<PickleValue>, String> {
        let mark = self.marks.pop().ok_or("a mark is missing")?;
        Ok(if mark <= self.stack.len() { self.stack.split_off(mark) } else { Vec::new() })
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(|_| "it is truncated")?;
        Ok(bytes)
    }
}

/// Keys and values that follow each other.
fn pairs(items: &[PickleValue]) -> Vec<(PickleValue, PickleValue)> {
    items.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect()
}

/// The name of an opcode that could run code, else its number.
fn named(code: u8) -> String {
    let known = match code {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 | 0x92 => "NEWOBJ",
        b'P' | b'Q' => "PERSID",
        0x82..=0x84 => "EXT",
        _ => return format!("{code:#04x}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_values_are_read_and_shared_objects_stay_shared() {
        // {'a': [1, 258, -2, 2**40], 'b': the same list, 'c': ('x', None, True)}
        let bytes = b"\x80\x02}q\0(X\x01\0\0\0a]q\x01(K\x01M\x02\x01J\xfe\xff\xff\xff\x8a\x06\0\0\0\0\0\x01eX\x01\0\0\0bh\x01\
            X\x01\0\0\0cX\x01\0\0\0xN\x88\x87u.";
        let (pickle, root) = PickleObjects::read(bytes.as_slice()).unwrap();
        let list = pickle.get(root, "a");
        assert_eq!(pickle.items(list), [1, 258, -2, 1 << 40].map(PickleValue::Integer));
        assert_eq!(pickle.get(root, "b"), list);
        let tuple = pickle.items(pickle.get(root, "c"));
        assert_eq!(pickle.text(tuple[0]), Some("x"));
        assert_eq!(tuple[1..], [PickleValue::Nothing, PickleValue::Integer(1)]);
    }

    #[test]
    fn code_is_refused_by_name() {
        for (bytes, name) in [
            (b"cos\nsystem\n(X\x01\0\0\0xtR.".as_slice(), "GLOBAL"),
            (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"),
            (b"(ios\nsystem\n.", "INST"),
            (b"N)R.", "REDUCE"),
        ] {
            assert!(PickleObjects::read(bytes).unwrap_err().contains(name), "{name}");
        }
    }

    #[test]
    fn protocols_that_are_not_read_are_named() {
        let bytes = b"(dp0\nVsegments\np1\n(lp2\ns.".as_slice();
        let reason = PickleObjects::read(bytes).unwrap_err();
        assert!(reason.starts_with("it is no pickle of protocol 2 or later"), "{reason}");
    }

    #[test]
    fn damage_is_an_error_and_cycles_do_no_harm() {
        for bytes in
            [b"".as_slice(), b".", b"\x80", b"X\xff\xff\xff\xff", b"h\x01.", b"a.", b"]K\x01s.", b"e."]
        {
            assert!(PickleObjects::read(bytes).is_err(), "{bytes:?}");
        }
        let (pickle, root) = PickleObjects::read(b"]q\0h\0a.".as_slice()).unwrap();
        assert_eq!(pickle.items(root), [root]);
        let deep: Vec<u8> = std::iter::repeat_n(b']', 200_000)
            .chain(std::iter::repeat_n(b'a', 199_999))
            .chain([b'.'])
            .collect();
        assert!(PickleObjects::read(deep.as_slice()).is_ok());
    }
}
