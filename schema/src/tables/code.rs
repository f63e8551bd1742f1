//! Code: cubins and the functions in them.

use crate::id::{FunctionId, ModuleId};

crate::tables! {
    /// A cubin that a run loaded, by content.
    Module "module" key [module_id] sort [module_id] {
        /// First eight bytes of the cubin's BLAKE3 hash.
        module_id: ModuleId,
        /// The cubin's BLAKE3 hash, 64 hexadecimal digits.
        content_hash: String,
        /// Bytes of the cubin as loaded.
        cubin_bytes: u64,
        /// CUPTI's CRC of the cubin, by which PC samples name it. Null where no sampling run loaded it.
        cupti_crc: Option<u64>,
        /// The architecture that the cubin is for, such as 90 for sm_90. Null where its header could not be read.
        sm: Option<u32>,
        /// The cubin's file in the capture, zstd-compressed. Null where the capture does not hold it.
        file: Option<String>,
        /// Code bytes of kernels that no launch used, zeroed in the stored cubin. Everything else is as loaded.
        zeroed_bytes: u64,
    }
    /// A function in a cubin that was launched, sampled or accessed memory.
    Function "function" key [function_id] sort [function_id] {
        /// Stable hash of (module, mangled name): a kernel's code, in each capture the same. Text such as `'0x1a2b'` in SQL.
        function_id: FunctionId,
        /// The cubin.
        module_id: ModuleId => "module"."module_id",
        /// Mangled name.
        name: String,
        /// The name as the programmer wrote it. The mangled one where it is not mangled.
        demangled_name: String,
        /// True if the function is a kernel.
        is_kernel: bool,
        /// Bytes of code. Null where the cubin could not be read.
        code_bytes: Option<u64>,
        /// Instructions that read or write memory, found in the code. Null where it could not be read.
        memory_instruction_count: Option<u32>,
        /// Memory instructions without a patch point (tensor-map and bulk copies). Their accesses are not observed.
        uncovered_instruction_count: Option<u32>,
    }
}
