//! Newtypes of identifiers, which keep one kind from being taken for another.

/// Declares identifiers: a tuple struct over an integer, with its meaning.
macro_rules! ids {
    ($($(#[doc = $doc:literal])+ $name:ident($inner:ty);)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl crate::cell::ColumnCell for $name {
            type Builder = <$inner as crate::cell::ColumnCell>::Builder;
            const NULLABLE: bool = false;
            fn data_type() -> arrow::datatypes::DataType { <$inner as crate::cell::ColumnCell>::data_type() }
            fn append(self, builder: &mut Self::Builder) { self.0.append(builder); }
            fn append_null(builder: &mut Self::Builder) { <$inner as crate::cell::ColumnCell>::append_null(builder); }
            fn read(array: &dyn arrow::array::Array, row: usize) -> Option<Self> {
                <$inner as crate::cell::ColumnCell>::read(array, row).map(Self)
            }
        }
    )+};
}

ids! {
    /// One process under one instrument.
    RunId(u32);
    /// One launch of the program: 0, 1, 2, ... in a capture. Every run of the capture refers to it. A [`FunctionId`] is
    /// a kernel's code.
    KernelId(u64);
    /// Stable hash of (cubin content, mangled name): the same in every run, machine and capture.
    FunctionId(u64);
    /// First eight bytes of the BLAKE3 hash of a cubin.
    ModuleId(u64);
    /// Stable hash of a whole Python stack. See [`crate::hash::pystates_hash`].
    PystatesHash(u64);
    /// Stable hash of one Python frame at one line.
    FrameId(u64);
    /// Stable hash of a whole native stack. See [`crate::hash::native_stack`].
    NativeStack(u64);
    /// Stable hash of one native frame. See [`crate::hash::native_frame`].
    NativeFrameId(u64);
    /// One call of an operator, or one user region.
    OpId(u64);
    /// One allocation of the framework's allocator, from its allocation to its free.
    StorageId(u64);
    /// One view of a storage: offset, sizes, strides, element type.
    TensorId(u64);
    /// One allocation of the driver.
    AllocationId(u64);
    /// A device virtual address.
    Address(u64);
    /// Byte offset of an instruction from the start of its function.
    Pc(u32);
}
