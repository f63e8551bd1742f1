// The device side of the block timeline: code that a copy of a kernel runs before its first instruction and in place of
// its exits.
//
// Nothing of the kernel is alive there, so no register is saved. Nothing waits for an answer: the block's first thread
// stores when it begins, and each warp that leaves reduces its time into the block's. The layout is
// `recorder/instruments/src/accesses/timing/layout.rs`, the way into the kernel `schema/sass/src/splice.rs`.
//
// Compiled at run time for the GPU at hand, so it includes no header. RECORDS is the address of the first block's record.

typedef unsigned int u32;
typedef unsigned long long u64;

// 32 bytes a block, which begin as 0: begin by the GPU's clock, by the multiprocessor's, the multiprocessor, and in one
// word the end by both: the GPU's clock in units of 32 ns, the multiprocessor's in the low half.
static __device__ __forceinline__ u64 record() {
    return RECORDS + 32 * (blockIdx.x + (u64)gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
}

// One exit, behind all of it: a warp must not diverge before it enters the kernel.
extern "C" __global__ void stallmap_block_enter() {
    u32 thread = threadIdx.x | threadIdx.y | threadIdx.z;
    asm volatile("{\n"
                 ".reg .pred first;\n"
                 ".reg .u64 ns;\n"
                 ".reg .u32 low, high, clock, processor;\n"
                 "setp.eq.u32 first, %1, 0;\n"
                 "mov.u64 ns, %%globaltimer;\n"
                 "mov.u32 clock, %%clock;\n"
                 "mov.u32 processor, %%smid;\n"
                 "mov.b64 {low, high}, ns;\n"
                 "@first st.global.v4.u32 [%0], {low, high, clock, processor};\n"
                 "mov.u32 clock, %%clock;\n"
                 "}" :: "l"(record()), "r"(thread) : "memory");
}

extern "C" __global__ void stallmap_block_exit() {
    asm volatile("{\n"
                 ".reg .pred first;\n"
                 ".reg .u64 ns, end;\n"
                 ".reg .u32 lane, mask, lowest, units, clock;\n"
                 "mov.u32 lane, %%laneid;\n"
                 "activemask.b32 mask;\n"
                 "brev.b32 lowest, mask;\n"
                 "bfind.shiftamt.u32 lowest, lowest;\n"
                 "setp.eq.u32 first, lowest, lane;\n"
                 "mov.u64 ns, %%globaltimer;\n"
                 "mov.u32 clock, %%clock;\n"
                 "shr.u64 ns, ns, 5;\n"
                 "cvt.u32.u64 units, ns;\n"
                 "mov.b64 end, {clock, units};\n"
                 "@first red.global.max.u64 [%0], end;\n"
                 "}" :: "l"(record() + 16) : "memory");
}
