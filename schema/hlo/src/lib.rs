//! Programs that XLA compiled, as JAX can serialize them.
//!
//! | module | contents |
//! |---|---|
//! | [`wire`], [`riegeli`] | protocol buffers, and the files that hold them |
//! | [`executable`] | the parts of a serialized executable |
//! | [`module`] | computations, instructions, and the Python frames at which they were traced |
//! | [`sources`] | operations that an instruction fuses, kernels' names, layers |
//! | [`shape`] | types of values |
//! | [`thunk`] | kernels with their code and arguments, copies, library calls, loops |
//! | [`blocks`] | arguments, results and temporaries by name |
//! | [`plan`] | the order in which instructions launch |
//! | [`ranges`] | XLA's own ranges around a launch |
//! | [`buffers`] | storages and tensors of launches |
//! | [`assign`] | the instruction of each launch |
//! | [`fingerprint`] | which instructions share a kernel |
//!
//! Every count is bounded and nothing is trusted: a recording may hold any bytes.

pub mod assign;
pub mod blocks;
pub mod buffers;
pub mod executable;
pub mod fingerprint;
pub mod module;
pub mod plan;
pub mod ranges;
pub mod riegeli;
pub mod shape;
pub mod sources;
pub mod thunk;
pub mod wire;
