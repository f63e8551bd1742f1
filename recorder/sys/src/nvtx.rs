//! NVTX, version 3: tables of callbacks that a program's copy of NVTX gives to the injected library.
//!
//! The copy calls `InitializeInjectionNvtx2` of the library that `NVTX_INJECTION64_PATH` names, once for each binary that
//! holds a copy, with a function that gives tables by number.

use std::ffi::{c_char, c_int, c_void};

/// (table's number): a table, or null
pub type ExportTables = extern "C" fn(u32) -> *const c_void;
/// A C function of any type.
pub type AnyFunction = *const c_void;

/// The number of the table of callbacks.
pub const CALLBACK_TABLE: u32 = 1;

/// The table of callbacks.
#[repr(C)]
pub struct CallbackTable {
    /// Bytes of the table.
    pub bytes: usize,
    /// (module, slots, number of slots): not 0 for success. Each slot points to the function to call, or is null.
    pub slots: Option<unsafe extern "C" fn(u32, *mut *mut *mut AnyFunction, *mut u32) -> c_int>,
}

/// Modules of callbacks.
pub mod module {
    /// Ranges of the default domain.
    pub const CORE: u32 = 1;
    /// Domains.
    pub const DOMAINS: u32 = 5;
}

/// Slots of [`module::CORE`], by function.
pub mod core_slot {
    /// nvtxMarkEx
    pub const MARK_EX: usize = 1;
    /// nvtxMarkA
    pub const MARK_A: usize = 2;
    /// nvtxMarkW
    pub const MARK_W: usize = 3;
    /// nvtxRangeStartEx
    pub const START_EX: usize = 4;
    /// nvtxRangeStartA
    pub const START_A: usize = 5;
    /// nvtxRangeStartW
    pub const START_W: usize = 6;
    /// nvtxRangeEnd
    pub const END: usize = 7;
    /// nvtxRangePushEx
    pub const PUSH_EX: usize = 8;
    /// nvtxRangePushA
    pub const PUSH_A: usize = 9;
    /// nvtxRangePushW
    pub const PUSH_W: usize = 10;
    /// nvtxRangePop
    pub const POP: usize = 11;
}

/// Slots of [`module::DOMAINS`], by function.
pub mod domain_slot {
    /// nvtxDomainMarkEx
    pub const MARK_EX: usize = 1;
    /// nvtxDomainRangeStartEx
    pub const START_EX: usize = 2;
    /// nvtxDomainRangeEnd
    pub const END: usize = 3;
    /// nvtxDomainRangePushEx
    pub const PUSH_EX: usize = 4;
    /// nvtxDomainRangePop
    pub const POP: usize = 5;
    /// nvtxDomainRegisterStringA
    pub const REGISTER_A: usize = 10;
    /// nvtxDomainRegisterStringW
    pub const REGISTER_W: usize = 11;
    /// nvtxDomainCreateA
    pub const CREATE_A: usize = 12;
    /// nvtxDomainCreateW
    pub const CREATE_W: usize = 13;
}

/// A character of wide texts.
pub type WideCharacter = i32;

/// Attributes of a range or mark.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EventAttributes {
    /// The version of NVTX.
    pub version: u16,
    /// Bytes of the attributes.
    pub bytes: u16,
    /// 0 for none.
    pub category: u32,
    /// Not used here.
    pub color: [u32; 2],
    /// See [`payload`].
    pub payload_type: i32,
    /// Not used here.
    pub reserved: i32,
    /// Bits of the payload.
    pub payload: u64,
    /// See [`message`].
    pub message_type: i32,
    /// The text, or the handle of a registered one.
    pub message: *const c_void,
}

/// Types of payloads.
pub mod payload {
    /// No payload.
    pub const NONE: i32 = 0;
    /// An unsigned integer of 64 bits.
    pub const U64: i32 = 1;
    /// A signed integer of 64 bits.
    pub const I64: i32 = 2;
    /// A double.
    pub const F64: i32 = 3;
    /// An unsigned integer of 32 bits.
    pub const U32: i32 = 4;
    /// A signed integer of 32 bits.
    pub const I32: i32 = 5;
    /// A float.
    pub const F32: i32 = 6;
    /// Structures of registered schemas.
    pub const EXTENDED: i32 = 0xdfbd_0009_u32.cast_signed();
}

/// Types of messages.
pub mod message {
    /// A text of bytes.
    pub const ASCII: i32 = 1;
    /// A text of wide characters.
    pub const WIDE: i32 = 2;
    /// The handle of a registered text.
    pub const REGISTERED: i32 = 3;
}

/// A C text.
pub type CText = *const c_char;
