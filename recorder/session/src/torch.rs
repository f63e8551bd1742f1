//! Activity of PyTorch: ops, Python stacks, tensors and the caching allocator, as Python's hooks report them.
//!
//! # The C interface, version [`calls::ABI_VERSION`]
//!
//! Python calls it by ctypes with the GIL held. Nothing here calls Python or CUDA. Every function may be called from
//! any thread, and does nothing where nothing is recorded. Numbers are passed as arrays of 64-bit words in the
//! machine's order. Unsigned ones are reinterpreted as signed. Texts are numbered once ([`texts`]); 0 is no text.
//!
//! | function | effect |
//! |---|---|
//! | `stallmap_abi_version()` | the version of this table. Python stops if it differs |
//! | `stallmap_mode(start)` | bits: 1 recording, 2 tensors are wanted, 4 begins paused, 8 never in this process (it was forked from one that had started CUDA); starts the session if `start` |
//! | `stallmap_text(bytes, length)` | the number of a text |
//! | `stallmap_state(bytes, length)` | records a Python stack, returns its hash. See [`states`] |
//! | `stallmap_origins(bytes, length)` | records the operations that a line of generated code computes. See [`compiled`] |
//! | `stallmap_triton_kernel(bytes, length)` | records a compiled version of a Triton kernel. See [`compiled`] |
//! | `stallmap_op_begin(words, length)` | begins an op or region on this thread, returns its op_id. See [`message::OpBeginning`] |
//! | `stallmap_op_end(words, length)` | ends it. See [`message::OpEnding`] |
//! | `stallmap_range_push(words, length)` | begins a range on this thread. See [`message::RangeOpening`] |
//! | `stallmap_range_pop(source)` | ends the innermost range of a source (0 torch, 1 stallmap) on this thread |
//! | `stallmap_metrics(words, length)` | gives numbers to a region that has begun. See [`message::RegionMetrics`] |
//! | `stallmap_name(words, length)` | sets the roles of tensors in the model. See [`message::TensorRole`] |
//! | `stallmap_frames(words, length, folders, bytes)` | describes the calling thread's stack, from which the library learns to read frames. See [`crate::frames::learn`] |
//! | `stallmap_stack()` | records the calling thread's stack as a launch would, returns its hash |
//! | `stallmap_engine(begins)` | a call of backward begins on this thread, or ends. See [`crate::frames::engine`] |
//! | `stallmap_pause(paused)` | leaves launches out, or no longer |
//! | `stallmap_fact(name, value)` | the versions of Python and PyTorch, as two texts |
//! | `stallmap_lose(kind, reason, count, detail)` | counts a loss: 0 op, 1 tensor, 2 source, with two texts |
//! | `stallmap_give_way(profiler)` | leaves NVIDIA's profiling interface to the profiler of that name, which is about to start, where this run can |
//! | `stallmap_hook_allocator()` | hooks the caching allocator. The number of places, 0 where there is none |
//!
//! A tensor record ([`message::SeenTensor`]) is 13 words and the sizes and strides: direction (0 in, 1 out, 2 inout,
//! 3 only mentioned), position, element, argument's name, index in this op of the tensor that it is a view of (or -1),
//! device, storage's address, storage's bytes, address, dtype's name, bytes of an element, whether it is a parameter,
//! number of dimensions.
//!
//! # Identity
//!
//! A storage is the lifetime of one allocator block. The caching allocator reports each allocation and free
//! ([`allocator_hook`]), so lifetimes are exact and in order with the launches. A tensor in no such block was allocated
//! before recording or by another allocator. Its storage has the origin `tensor` and lives from ordinal 0 until a free
//! or an overlapping allocation. If the allocator cannot be hooked, results get storages that live from the launch
//! before which their op began. Tensors of no elements have no storage and are left out.

pub mod allocator_hook;
pub mod calls;
pub mod compiled;
pub mod message;
pub mod ops;
pub mod recorded;
pub mod states;
pub mod storages;
pub mod texts;
