//! Native stacks: C, C++ and Rust code that launched kernels.

use crate::id::{NativeFrameId, NativeStack, RunId};

crate::tables! {
    /// A frame of a native stack: a call in a library or program.
    NativeFrame "native_frame" key [native_frame_id] sort [native_frame_id] {
        /// Stable hash of (code of the library, offset, level of inlining).
        native_frame_id: NativeFrameId,
        /// File of the library or program. Null for code of no file, such as that of a just-in-time compiler.
        library: Option<String>,
        /// Build id of the library, in hexadecimal. Null where it has none.
        build_id: Option<String>,
        /// Last byte of the call, as an address of the library's file. 0 for code of no file.
        call_offset: u64,
        /// 0 for the innermost of the functions that are inlined into each other at the offset.
        level: u32,
        /// Demangled name of the function without its parameters. Null where it is not known.
        function: Option<String>,
        /// File of the source line, as the line table names it. Null where no line is known.
        file: Option<String>,
        /// The line of the call.
        line: Option<u32>,
        /// The reason for the missing function or line. Null where both are known.
        missing: Option<String>,
    }
    /// One frame's place in one native stack.
    NativeState "native_state" key [native_stack, depth] sort [native_stack, depth] {
        /// Stable hash of the whole stack.
        native_stack: NativeStack,
        /// 0 for the innermost frame: the function of CUDA that was called.
        depth: u32,
        /// The frame.
        native_frame_id: NativeFrameId => "native_frame"."native_frame_id",
        /// The first run that saw the stack.
        run_id: RunId => "run"."run_id",
    }
}
