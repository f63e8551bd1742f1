//! The C interface that the Python hooks call.
