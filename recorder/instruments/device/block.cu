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

static __device__ __forceinline__ void begin() {
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
                 "}" :: "l"(record()), "r"(thread) : "memory");
}

// One exit, behind all of it: a warp must not diverge before it enters the kernel. So all lanes store to shared memory, where
// the compiler would let all but one exit. The copy is without that store.
extern "C" __global__ void stallmap_block_enter() {
    begin();
    asm volatile("st.shared.u32 [%0], %0;" :: "r"(0) : "memory");
}

#ifdef EVENTS
// The same where warps note moments: each gets a ring of events, which begin as 0. Blocks have rings that are read in equal steps,
// so that about MARKED_WARPS warps do. Those of all others lie behind, where nobody reads.
//
// The store to shared memory says in which registers the address is.
extern "C" __global__ void stallmap_warp_enter() {
    begin();
    u32 warps = (blockDim.x * blockDim.y * blockDim.z + 31) / 32;
    u32 warp = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;
    u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    u32 step = (gridDim.x * gridDim.y * gridDim.z * warps + MARKED_WARPS - 1) / MARKED_WARPS;
    u32 slot = block / step;
    u32 multiprocessor;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    u32 ring = slot * step == block ? slot * warps + warp : READ_RINGS + (multiprocessor * 8 + warp) % OTHER_RINGS;
    u64 address = (u64)(EVENTS) + (u64)(RING_BYTES) * ring;
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" :: "r"(0), "r"((u32)address), "r"((u32)(address >> 32)) : "memory");
}
#endif

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
