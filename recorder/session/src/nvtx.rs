//! Functions that a program's copies of NVTX call: [`crate::ranges`] records them.
//!
//! Nothing that a program passes is trusted: handles are numbers of texts here, never addresses. Errors of the program are
//! counted.
#![expect(unsafe_code, reason = "NVTX gives tables of functions and texts by pointers")]

use std::ffi::{CStr, c_int, c_void};

use stallmap_schema::word::{LossKind, RangeSource};
pub use stallmap_sys::nvtx::ExportTables;
use stallmap_sys::nvtx::{
    AnyFunction, CALLBACK_TABLE, CText, CallbackTable, EventAttributes, WideCharacter, core_slot,
    domain_slot, message, module, payload,
};

use crate::guard::guard;
use crate::ranges::{self, RangeBeginning, RangeMetric};
use crate::session;
use crate::torch::texts;

/// Characters of a text.
const MAX_CHARACTERS: usize = 1 << 12;
/// The number of the default domain.
const DEFAULT_DOMAIN: i64 = 0;
/// The name of a range whose own cannot be read.
const UNNAMED: &str = "(unnamed)";
/// The result of a call where there is no such range.
const NO_RANGE: c_int = -1;

/// Attaches to a copy of NVTX: takes the place of its functions. False where it gives no tables.
///
/// # Safety
/// `tables`, where not null, gives NVTX's tables.
pub unsafe fn attach(tables: Option<ExportTables>) -> bool {
    let Some(tables) = tables else { return false };
    // SAFETY: the table is null or NVTX's own, which lives as long as the process.
    let table = unsafe { tables(CALLBACK_TABLE).cast::<CallbackTable>().as_ref() };
    let Some(table) = table.filter(|table| table.bytes >= size_of::<CallbackTable>()) else { return false };
    let attached =
        [(module::CORE, core_calls()), (module::DOMAINS, domain_calls())].map(|(module, calls)| {
            // SAFETY: as above, and each call has the type of its slot.
            unsafe { fill(table, module, &calls) }
        });
    attached.contains(&true)
}

/// Functions by slot.
type SlotCalls = Vec<(usize, AnyFunction)>;

fn core_calls() -> SlotCalls {
    vec![
        (core_slot::MARK_EX, mark_ex as AnyFunction),
        (core_slot::MARK_A, mark_a as AnyFunction),
        (core_slot::MARK_W, mark_w as AnyFunction),
        (core_slot::START_EX, start_ex as AnyFunction),
        (core_slot::START_A, start_a as AnyFunction),
        (core_slot::START_W, start_w as AnyFunction),
        (core_slot::END, end as AnyFunction),
        (core_slot::PUSH_EX, push_ex as AnyFunction),
        (core_slot::PUSH_A, push_a as AnyFunction),
        (core_slot::PUSH_W, push_w as AnyFunction),
        (core_slot::POP, pop as AnyFunction),
    ]
}

fn domain_calls() -> SlotCalls {
    vec![
        (domain_slot::MARK_EX, domain_mark_ex as AnyFunction),
        (domain_slot::START_EX, domain_start_ex as AnyFunction),
        (domain_slot::END, domain_end as AnyFunction),
        (domain_slot::PUSH_EX, domain_push_ex as AnyFunction),
        (domain_slot::POP, domain_pop as AnyFunction),
        (domain_slot::REGISTER_A, register_a as AnyFunction),
        (domain_slot::REGISTER_W, register_w as AnyFunction),
        (domain_slot::CREATE_A, create_a as AnyFunction),
        (domain_slot::CREATE_W, create_w as AnyFunction),
    ]
}

/// Puts functions into the slots of a module. False where it has none.
///
/// # Safety
/// The table is NVTX's, and the functions have the types of their slots.
unsafe fn fill(table: &CallbackTable, module: u32, calls: &[(usize, AnyFunction)]) -> bool {
    let (mut slots, mut count) = (std::ptr::null_mut::<*mut AnyFunction>(), 0_u32);
    let Some(slots_of) = table.slots else { return false };
    // SAFETY: by this function's contract. Both pointers are valid.
    let is_known = unsafe { slots_of(module, &raw mut slots, &raw mut count) } != 0;
    if !is_known || slots.is_null() {
        return false;
    }
    for (slot, call) in calls.iter().filter(|(slot, _)| *slot < count as usize) {
        // SAFETY: the table has `count` slots. A slot is null or points to the function that NVTX calls.
        unsafe {
            let target = *slots.add(*slot);
            if !target.is_null() {
                *target = *call;
            }
        }
    }
    true
}

extern "C" fn mark_ex(attributes: *const EventAttributes) {
    domain_mark_ex(std::ptr::null(), attributes);
}

extern "C" fn mark_a(text: CText) {
    guard((), || ranges::mark(named(bytes(text))));
}

extern "C" fn mark_w(text: *const WideCharacter) {
    guard((), || ranges::mark(named(wide(text))));
}

extern "C" fn start_ex(attributes: *const EventAttributes) -> u64 {
    domain_start_ex(std::ptr::null(), attributes)
}

extern "C" fn start_a(text: CText) -> u64 {
    guard(0, || ranges::start(named(bytes(text))))
}

extern "C" fn start_w(text: *const WideCharacter) -> u64 {
    guard(0, || ranges::start(named(wide(text))))
}

extern "C" fn end(number: u64) {
    guard((), || ranges::end(number));
}

extern "C" fn push_ex(attributes: *const EventAttributes) -> c_int {
    domain_push_ex(std::ptr::null(), attributes)
}

extern "C" fn push_a(text: CText) -> c_int {
    guard(NO_RANGE, || level(ranges::push(named(bytes(text)))))
}

extern "C" fn push_w(text: *const WideCharacter) -> c_int {
    guard(NO_RANGE, || level(ranges::push(named(wide(text)))))
}

extern "C" fn pop() -> c_int {
    domain_pop(std::ptr::null())
}

extern "C" fn domain_mark_ex(domain: *const c_void, attributes: *const EventAttributes) {
    guard((), || ranges::mark(described(domain, attributes)));
}

extern "C" fn domain_start_ex(domain: *const c_void, attributes: *const EventAttributes) -> u64 {
    guard(0, || ranges::start(described(domain, attributes)))
}

extern "C" fn domain_end(_domain: *const c_void, number: u64) {
    end(number);
}

extern "C" fn domain_push_ex(domain: *const c_void, attributes: *const EventAttributes) -> c_int {
    guard(NO_RANGE, || level(ranges::push(described(domain, attributes))))
}

extern "C" fn domain_pop(domain: *const c_void) -> c_int {
    guard(NO_RANGE, || ranges::pop(RangeSource::Nvtx, number(domain)).map_or(NO_RANGE, level))
}

extern "C" fn register_a(_domain: *const c_void, text: CText) -> *const c_void {
    guard(std::ptr::null(), || handle(bytes(text)))
}

extern "C" fn register_w(_domain: *const c_void, text: *const WideCharacter) -> *const c_void {
    guard(std::ptr::null(), || handle(wide(text)))
}

extern "C" fn create_a(text: CText) -> *const c_void {
    guard(std::ptr::null(), || handle(bytes(text)))
}

extern "C" fn create_w(text: *const WideCharacter) -> *const c_void {
    guard(std::ptr::null(), || handle(wide(text)))
}

/// A number of open ranges as NVTX gives it.
fn level(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// A text's handle: its number.
fn handle(text: Option<String>) -> *const c_void {
    let number = texts::number(&readable(text));
    std::ptr::without_provenance(usize::try_from(number).unwrap_or(0))
}

/// The number of a handle. A handle that the program made up stands for no text.
fn number(handle: *const c_void) -> i64 {
    i64::try_from(handle.addr()).unwrap_or(DEFAULT_DOMAIN)
}

/// A range with a name only.
fn named(text: Option<String>) -> RangeBeginning {
    let (source, domain) = (RangeSource::Nvtx, DEFAULT_DOMAIN);
    let mut name = readable(text);
    name.truncate(without_numbers(&name).len());
    RangeBeginning { source, domain, name, category: None, metrics: Vec::new() }
}

/// A name without the numbers that PyTorch's `emit_nvtx` puts behind it, which differ from call to call.
fn without_numbers(name: &str) -> &str {
    let ends = [", seq = ", ", op_id = "].into_iter().filter_map(|label| {
        let (before, number) = name.split_once(label)?;
        number.starts_with(|digit: char| digit.is_ascii_digit()).then_some(before)
    });
    ends.min_by_key(|before| before.len()).unwrap_or(name)
}

fn readable(text: Option<String>) -> String {
    text.unwrap_or_else(|| {
        lose("the name of an NVTX range cannot be read");
        UNNAMED.to_owned()
    })
}

/// A range with attributes.
fn described(domain: *const c_void, attributes: *const EventAttributes) -> RangeBeginning {
    // SAFETY: NVTX passes on what the program gave it: null, or attributes, whose first two fields are always there.
    let is_complete = !attributes.is_null()
        && unsafe { usize::from((&raw const (*attributes).bytes).read_unaligned()) }
            >= size_of::<EventAttributes>();
    if !is_complete {
        return RangeBeginning { domain: number(domain), ..named(None) };
    }
    // SAFETY: as above, and the program gave all fields by its own count.
    let attributes = unsafe { attributes.read_unaligned() };
    let text = match attributes.message_type {
        message::ASCII => bytes(attributes.message.cast()),
        message::WIDE => wide(attributes.message.cast()),
        message::REGISTERED => texts::text(number(attributes.message)).map(str::to_owned),
        _ => None,
    };
    RangeBeginning {
        domain: number(domain),
        category: Some(attributes.category).filter(|category| *category != 0),
        metrics: Vec::from_iter(value(&attributes).map(payload_metric)),
        ..named(text)
    }
}

fn payload_metric(value: f64) -> RangeMetric {
    RangeMetric { name: "payload".to_owned(), value, unit: None }
}

/// The payload as a number.
fn value(attributes: &EventAttributes) -> Option<f64> {
    let bits = attributes.payload;
    let [a, b, c, d, ..] = bits.to_ne_bytes();
    let half = [a, b, c, d];
    match attributes.payload_type {
        // Structures are no number. XLA gives each of its ranges one.
        payload::NONE | payload::EXTENDED => None,
        payload::U64 => Some(bits as f64),
        payload::I64 => Some(bits.cast_signed() as f64),
        payload::F64 => Some(f64::from_bits(bits)),
        payload::U32 => Some(f64::from(u32::from_ne_bytes(half))),
        payload::I32 => Some(f64::from(i32::from_ne_bytes(half))),
        payload::F32 => Some(f64::from(f32::from_ne_bytes(half))),
        _ => {
            lose("the payload of an NVTX range is of a type that is not recorded");
            None
        }
    }
}

/// A text of bytes. `None` where it is null.
fn bytes(text: CText) -> Option<String> {
    // SAFETY: NVTX passes on what the program gave it: null, or a text that ends with 0.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A text of wide characters. `None` where it is null.
fn wide(text: *const WideCharacter) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: NVTX passes on what the program gave it: a text that ends with 0.
    let characters = (0..MAX_CHARACTERS).map(|index| unsafe { text.add(index).read_unaligned() });
    let known = characters.take_while(|character| *character != 0);
    Some(
        known
            .map(|character| u32::try_from(character).ok().and_then(char::from_u32).unwrap_or('\u{fffd}'))
            .collect(),
    )
}

fn lose(reason: &'static str) {
    session::lose(LossKind::Op, reason, 1, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_numbers_of_emit_nvtx_are_left_out() {
        let names = [
            "aten::mm, seq = 16, op_id = 12, sizes = [[2]]",
            "aten::mm, op_id = 3",
            "a, seq = b",
            "a, seq",
            "",
        ];
        assert_eq!(names.map(without_numbers), ["aten::mm", "aten::mm", "a, seq = b", "a, seq", ""]);
    }
}
