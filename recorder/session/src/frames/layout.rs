//! Layout of the frames of the Python that runs, found by a search: no version is assumed.
//!
//! Python describes one stack with the addresses that it must hold. The search reads by a call that fails on a wrong
//! address, and takes a layout only where every frame, name and line of that stack comes out of it.

use std::ffi::c_void;

use super::lines::{line_at, line_in_pairs};
use super::{MAX_FRAMES, TRAMPOLINE, WalkedFrame};

/// Words of a shown frame.
const FRAME_WORDS: usize = 7;
/// Offsets at which the thread's state may hold its frame.
const THREAD_OFFSETS: std::ops::Range<usize> = 24..256;
/// Frames of Python 3.10, of 3.11, and from 3.12 on.
const FRAME_FORMS: [FrameForm; 3] = [
    FrameForm { code: 32, previous: 24, instruction: InstructionField::Index(96) },
    FrameForm { code: 32, previous: 48, instruction: InstructionField::Address(56) },
    FrameForm { code: 0, previous: 8, instruction: InstructionField::Address(56) },
];
/// Bytes of an instruction that an index counts.
const INSTRUCTION_BYTES: usize = 2;
/// Bytes of a code object that are searched.
const CODE_BYTES: usize = 256;
/// Offsets of an object's type, and of the size of one of variable size.
const TYPE: usize = 8;
const SIZE: usize = 16;
/// Offset of the first byte of a `bytes` object.
const BYTES: usize = 32;
/// Offsets at which the characters of an ASCII text may begin.
const TEXTS: [usize; 2] = [40, 48];
/// Bytes of a text and of a table of lines that are read.
const MAX_TEXT: usize = 4096;
const MAX_TABLE: usize = 1 << 20;
/// Low bits of a reference that mark it, in Python 3.14.
const MARKS: usize = 7;

/// Reads bytes at an address. False where it is not readable.
pub(super) type ReadMemory = dyn Fn(usize, &mut [u8]) -> bool;

/// A frame as Python shows it: the address of its code, the instruction's offset, its line, the first line, addresses of
/// file name, qualified name and table of lines.
#[derive(Clone, Copy, Debug)]
struct ShownFrame {
    code: usize,
    offset: usize,
    line: u32,
    first_line: u32,
    file: usize,
    name: usize,
    table: usize,
}

/// A stack as Python shows it: the address of the type of code objects, then its frames, innermost first.
#[derive(Clone, Debug)]
pub(super) struct ShownStack {
    code_type: usize,
    frames: Vec<ShownFrame>,
}

/// A frame's texts and lines.
pub(super) struct DescribedFrame {
    pub(super) file: String,
    pub(super) function: String,
    pub(super) first_line: u32,
    pub(super) line: u32,
}

/// Offsets in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameForm {
    code: usize,
    previous: usize,
    instruction: InstructionField,
}

/// The offset of a frame's instruction, and its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstructionField {
    /// Its address.
    Address(usize),
    /// Its number in the code, 32 bits. Tables of lines are pairs there.
    Index(usize),
}

/// Offsets in Python's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameLayout {
    code_type: usize,
    thread: usize,
    /// The offset of the frame in what the thread's state points to, where it does not point to the frame itself.
    indirect: Option<usize>,
    form: FrameForm,
    first_line: usize,
    file: usize,
    name: usize,
    table: usize,
    instructions: usize,
    text: usize,
}

impl ShownStack {
    /// Reads the words of Python. `None` where they are not a stack.
    pub(super) fn read(words: &[i64]) -> Option<Self> {
        let (&code_type, words) = words.split_first()?;
        let (frames, rest) = words.as_chunks::<FRAME_WORDS>();
        let address = |word: i64| usize::try_from(word).ok();
        let number = |word: i64| u32::try_from(word).ok();
        let frame = |&[code, offset, line, first_line, file, name, table]: &[i64; FRAME_WORDS]| {
            Some(ShownFrame {
                code: address(code)?,
                offset: address(offset)?,
                line: number(line)?,
                first_line: number(first_line)?,
                file: address(file)?,
                name: address(name)?,
                table: address(table)?,
            })
        };
        let frames: Vec<ShownFrame> = frames.iter().map(frame).collect::<Option<_>>()?;
        (rest.is_empty() && frames.len() >= 2).then_some(Self { code_type: address(code_type)?, frames })
    }
}

/// The layout by which the thread's state gives the stack. `None` where there is none.
pub(super) fn find(shown: &ShownStack, thread: usize) -> Option<FrameLayout> {
    let base = code_layout(shown)?;
    let ways = [None, Some(0), Some(8)];
    let places = THREAD_OFFSETS.step_by(8).flat_map(|place| ways.map(|indirect| (place, indirect)));
    let layouts = places.flat_map(|(thread, indirect)| {
        FRAME_FORMS.map(|form| FrameLayout { thread, indirect, form, ..base })
    });
    let mut right = layouts.into_iter().filter_map(|layout| layout.learned(shown, thread));
    right.next()
}

/// Offsets in code objects: those where every code of the stack holds what Python shows.
fn code_layout(shown: &ShownStack) -> Option<FrameLayout> {
    let codes: Vec<[u8; CODE_BYTES]> =
        shown.frames.iter().map(|frame| block(frame.code)).collect::<Option<_>>()?;
    let holds = |offset: usize, bytes: &dyn Fn(&ShownFrame) -> Vec<u8>| {
        let mut pairs = shown.frames.iter().zip(&codes);
        pairs.all(|(frame, code)| code.get(offset..).is_some_and(|rest| rest.starts_with(&bytes(frame))))
    };
    let only = |step: usize, bytes: &dyn Fn(&ShownFrame) -> Vec<u8>| {
        let mut found = (SIZE..CODE_BYTES).step_by(step).filter(|&offset| holds(offset, bytes));
        found.next().filter(|_| found.next().is_none())
    };
    let file = shown.frames.first()?.file;
    let length = word(file + SIZE, &read_checked)?.min(MAX_TEXT);
    let mut text = TEXTS.into_iter().filter(|&offset| ascii(file + offset, length, &read_checked).is_some());
    Some(FrameLayout {
        code_type: shown.code_type,
        thread: 0,
        indirect: None,
        form: FRAME_FORMS[0],
        first_line: only(4, &|frame| frame.first_line.to_ne_bytes().to_vec())?,
        file: only(8, &|frame| frame.file.to_ne_bytes().to_vec())?,
        name: {
            // A function's name and qualified name may be one object.
            let mut last = (SIZE..CODE_BYTES).step_by(8).rev();
            last.find(|&offset| holds(offset, &|frame| frame.name.to_ne_bytes().to_vec()))?
        },
        table: only(8, &|frame| frame.table.to_ne_bytes().to_vec())?,
        instructions: 0,
        text: text.next().filter(|_| text.next().is_none())?,
    })
}

impl FrameLayout {
    /// The layout with the place of instructions, if the thread's stack comes out of it.
    fn learned(self, shown: &ShownStack, thread: usize) -> Option<Self> {
        let walked = self.walk(thread, &read_checked);
        // The innermost frames are those of this call itself.
        let is_shown =
            |frame: &&WalkedFrame| self.name_of(frame.code, &read_checked).as_deref() != Some(TRAMPOLINE);
        let walked: Vec<&WalkedFrame> = walked.iter().filter(is_shown).collect();
        let walked = walked.get(walked.len().checked_sub(shown.frames.len())?..)?;
        let (first, frame) = (walked.first()?, shown.frames.first()?);
        let instructions = first.instruction.checked_sub(frame.offset)?.checked_sub(frame.code)?;
        let layout = Self { instructions, ..self };
        let is_right = |(walked, frame): (&&WalkedFrame, &ShownFrame)| {
            walked.code == frame.code
                && walked.instruction == frame.code + instructions + frame.offset
                && layout.line_of(**walked, &read_checked).unwrap_or(0) == frame.line
        };
        walked.iter().zip(&shown.frames).all(is_right).then_some(layout)
    }

    /// The frames of a thread's stack, innermost first.
    pub(super) fn walk(&self, thread: usize, read: &ReadMemory) -> Vec<WalkedFrame> {
        let mut frames = Vec::new();
        let mut next = word(thread + self.thread, read);
        if let Some(offset) = self.indirect {
            next = next.filter(|&address| address != 0).and_then(|address| word(address + offset, read));
        }
        // Frames between Python's own count, too: a loop must end.
        for _ in 0..2 * MAX_FRAMES {
            let Some(frame) = next.filter(|&frame| frame != 0 && frame.is_multiple_of(8)) else { break };
            if let Some(found) = self.frame(frame, read) {
                frames.push(found);
            }
            if frames.len() >= MAX_FRAMES {
                break;
            }
            next = word(frame + self.form.previous, read);
        }
        frames
    }

    /// A frame of Python's code. `None` for frames that are not.
    fn frame(&self, frame: usize, read: &ReadMemory) -> Option<WalkedFrame> {
        let code = word(frame + self.form.code, read)? & !MARKS;
        let is_code = code != 0 && word(code + TYPE, read)? == self.code_type;
        let instruction = match self.form.instruction {
            InstructionField::Address(offset) => word(frame + offset, read)?,
            // It is -1 in a frame that has not begun.
            InstructionField::Index(offset) => {
                let index = i32::try_from(half(frame + offset, read)?).unwrap_or(0);
                code.checked_add(usize::try_from(index).ok()?.checked_mul(INSTRUCTION_BYTES)?)?
            }
        };
        is_code.then_some(WalkedFrame { code, instruction })
    }

    /// Addresses that distinguish a code object from an earlier one at its address.
    pub(super) fn identity(&self, code: usize) -> [Option<usize>; 3] {
        [self.file, self.name, self.table].map(|offset| word(code + offset, &read_own))
    }

    /// A frame's texts and lines.
    pub(super) fn describe(&self, frame: WalkedFrame) -> Option<DescribedFrame> {
        let text = |address: usize| self.text(address, &read_own);
        Some(DescribedFrame {
            file: text(word(frame.code + self.file, &read_own)?)?,
            function: self.name_of(frame.code, &read_own)?,
            first_line: half(frame.code + self.first_line, &read_own)?,
            line: self.line_of(frame, &read_own).unwrap_or(0),
        })
    }

    fn name_of(&self, code: usize, read: &ReadMemory) -> Option<String> {
        self.text(word(code + self.name, read)?, read)
    }

    fn line_of(&self, frame: WalkedFrame, read: &ReadMemory) -> Option<u32> {
        let table = word(frame.code + self.table, read)?;
        let mut bytes = vec![0; word(table + SIZE, read)?.min(MAX_TABLE)];
        let offset = frame.instruction.checked_sub(frame.code + self.instructions)?;
        let first_line = half(frame.code + self.first_line, read)?;
        let line = match self.form.instruction {
            InstructionField::Address(_) => line_at,
            InstructionField::Index(_) => line_in_pairs,
        };
        read(table + BYTES, &mut bytes).then(|| line(&bytes, first_line, offset)).flatten()
    }

    /// A text. Others than ASCII are marked.
    fn text(&self, address: usize, read: &ReadMemory) -> Option<String> {
        let length = word(address + SIZE, read)?.min(MAX_TEXT);
        Some(ascii(address + self.text, length, read).unwrap_or_else(|| "(not ASCII)".to_owned()))
    }
}

fn ascii(address: usize, length: usize, read: &ReadMemory) -> Option<String> {
    let mut bytes = vec![0; length];
    let is_text = read(address, &mut bytes) && bytes.iter().all(|byte| byte.is_ascii() && *byte != 0);
    is_text.then(|| String::from_utf8(bytes).ok()).flatten()
}

fn word(address: usize, read: &ReadMemory) -> Option<usize> {
    let mut bytes = [0; 8];
    read(address, &mut bytes).then(|| usize::from_ne_bytes(bytes))
}

fn half(address: usize, read: &ReadMemory) -> Option<u32> {
    let mut bytes = [0; 4];
    read(address, &mut bytes).then(|| u32::from_ne_bytes(bytes))
}

fn block(address: usize) -> Option<[u8; CODE_BYTES]> {
    let mut bytes = [0; CODE_BYTES];
    read_checked(address, &mut bytes).then_some(bytes)
}

/// Reads memory of this process by a call that fails where there is none.
pub(super) fn read_checked(address: usize, bytes: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut::<c_void>(address),
        iov_len: bytes.len(),
    };
    // SAFETY: `local` is writable, and the kernel checks `remote`.
    let read =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read) == Ok(bytes.len())
}

/// Reads memory that a layout gives which was learned.
pub(super) fn read_own(address: usize, bytes: &mut [u8]) -> bool {
    let source = std::ptr::with_exposed_provenance::<u8>(address);
    // SAFETY: the address comes from Python's own objects of this thread's stack, which live while its call runs, by a
    // layout that gave a whole stack rightly.
    unsafe { std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len()) };
    true
}
