// Kernels whose stalls are known to wait for one buffer rather than another, by the way in which loads meet their uses.
//
// A and B have 2^21 rows of 128 bytes each, more than any L2 cache: a row that nothing has touched yet comes from device
// memory, in some 1000 cycles. `hot` has 4 such rows: all but the first touch of a row come from L1 in some 40 cycles
// (copies past L1 from L2, in some 300). A warp is a block, its 32 lanes access the 32 elements of one row, and all
// elements of a row hold the same number, so a warp follows one path. Every launch takes STEPS steps from rows of its own,
// which are in no cache.
//
//   one_use       a row of A and one of B, then one instruction that needs both: half of the stalls each, by symmetry
//   one_use_hot   a row of A and one of `hot`, then one instruction that needs both: A's comes last, as a few rows come
//                 from a cache
//   own_uses      a row of A, then one of `hot`, then a use of A's, then one of hot's: the load nearest to the stalled
//                 instruction is not the one that it waits for
//   carried       the row of A that one iteration loads is used at the begin of the next, and only the first one, loaded
//                 before the loop, is of B: the waiting instruction stands before its load
//   either        two loads into one register with complementary predicates: one warp in four executes A's, the rest
//                 B's, so a quarter of the stalls are for A
//   halves        lanes 0 to 15 follow a chain in A, lanes 16 to 31 one in `hot`: two branches, each with its own use
//   copy_groups   cp.async of A, then of `hot`, as two groups. The first wait leaves the newer one in flight
//   copy_stages   a ring of four cp.async groups: the first three of B, before the loop, all others of A
//   shared_chain  links in shared memory: short_scoreboard, and none of it for the buffer that filled the memory
//   atomic_chain  each step needs the old value of the atomic addition before
//   callee        the load stands in a function that is called, which does not return before it has come
//   tensor_maps   a row of A and one of `hot` by tensor maps, an mbarrier each. A's is waited for first
//   bulk_copies   the same by bulk copies, whose addresses are in registers
//
// Prints one JSON object a kernel: exact counts of accesses by lanes (those of tensor maps and bulk copies are made by
// no lane), buffers, and the least and most share of the stalls of a reason that each buffer may be charged, with why.
//
// Build: nvcc -O3 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o blame_truth blame_truth.cu

#include <cuda.h>

#include "truth.h"

constexpr uint32_t LANES = 32;
constexpr uint32_t WARPS = 16;
constexpr uint32_t STEPS = 48;
constexpr uint32_t LINKS = 256;  // of shared_chain
constexpr uint32_t STAGES = 4;   // of copy_stages
constexpr uint32_t ROW_BITS = 21;
constexpr uint32_t MASK = (1u << ROW_BITS) - 1;
constexpr uint32_t HOT_ROWS = 4;
constexpr uint32_t RING = 1024;  // elements of shared_chain's ring
constexpr uint32_t ROW_BYTES = LANES * 4;

// Content of a row of each buffer. A's and B's are permutations.
__host__ __device__ inline uint32_t in_a(uint32_t row) { return link(row, MASK); }
__host__ __device__ inline uint32_t in_b(uint32_t row) { return (row * 22695477u + 12345u) & MASK; }
__host__ __device__ inline uint32_t in_hot(uint32_t row) { return row * 7u + 1u; }
// Where a warp begins, and its next row where that depends on nothing loaded.
__host__ __device__ inline uint32_t start(uint32_t warp) { return scatter(warp + 1) & MASK; }
__host__ __device__ inline uint32_t onward(uint32_t row) { return (row * 747796405u + 2891336453u) & MASK; }
// A sum whose terms keep their order.
__host__ __device__ inline uint32_t fold(uint32_t sum, uint32_t term) { return sum * 5u + term; }

__device__ inline uint32_t lane() { return threadIdx.x; }
__device__ inline uint32_t at(uint32_t row) { return row * LANES + lane(); }
__device__ inline uint32_t thread() { return blockIdx.x * LANES + lane(); }
__device__ inline uint32_t shared_address(const void *place) { return (uint32_t)__cvta_generic_to_shared(place); }

extern "C" __global__ void one_use(const uint32_t *A, const uint32_t *B, uint32_t *out, uint32_t first) {
    uint32_t row = start(first + blockIdx.x);
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t b = B[at(row)];
        uint32_t a = A[at(row)];
        row = (a + 2 * b) & MASK;
    }
    out[thread()] = row;
}

extern "C" __global__ void one_use_hot(const uint32_t *A, const uint32_t *hot, uint32_t *out, uint32_t first) {
    uint32_t row = start(first + blockIdx.x);
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t h = hot[at(row % HOT_ROWS)];
        uint32_t a = A[at(row)];
        row = (a + 4 * h) & MASK;
    }
    out[thread()] = row;
}

extern "C" __global__ void own_uses(const uint32_t *A, const uint32_t *hot, uint32_t *out, uint32_t first) {
    uint32_t row = start(first + blockIdx.x), sum = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t a = A[at(row)];
        uint32_t h = hot[at(row % HOT_ROWS)];
        sum = fold(fold(sum, a), h);
        row = a;
    }
    out[thread()] = sum;
}

// A use of a value that the compiler may not move.
__device__ inline void keep_here(uint32_t &value) { asm volatile("xor.b32 %0, %0, 1;" : "+r"(value)::"memory"); }

extern "C" __global__ void carried(const uint32_t *A, const uint32_t *B, const uint32_t *hot, uint32_t *out, uint32_t first) {
    uint32_t row = start(first + blockIdx.x), sum = 0;
    uint32_t value = B[at(row)];
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) {
        keep_here(value);
        sum = fold(sum, value);
        row = onward(row);
        value = A[at(row)];
        sum = fold(sum, hot[at(sum % HOT_ROWS)]);
    }
    out[thread()] = fold(sum, value);
}

extern "C" __global__ void either(const uint32_t *A, const uint32_t *B, uint32_t *out, uint32_t first) {
    uint32_t row = start(first + blockIdx.x);
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t value;
        asm volatile("{\n\t"
                     ".reg .pred odd;\n\t"
                     "setp.ne.u32 odd, %3, 0;\n\t"
                     "@!odd ld.global.u32 %0, [%1];\n\t"
                     "@odd ld.global.u32 %0, [%2];\n\t"
                     "}"
                     : "=r"(value)
                     : "l"(A + at(row)), "l"(B + at(row)), "r"(blockIdx.x % 4)
                     : "memory");
        row = value;
    }
    out[thread()] = row;
}

extern "C" __global__ void halves(const uint32_t *A, const uint32_t *hot, uint32_t *out, uint32_t first) {
    uint32_t row = start(first + blockIdx.x);
    if (lane() < LANES / 2) {
#pragma unroll 1
        for (uint32_t step = 0; step < STEPS; step++) row = A[at(row)];
    } else {
#pragma unroll 1
        for (uint32_t step = 0; step < STEPS; step++) row = fold(step, hot[at(row % HOT_ROWS)]);
    }
    out[thread()] = row;
}

// Copies four bytes asynchronously, as a group of its own.
__device__ inline void copy_async(uint32_t *to, const uint32_t *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until no more than `newest` groups are on their way.
template <int newest> __device__ inline void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(newest) : "memory"); }

extern "C" __global__ void copy_groups(const uint32_t *A, const uint32_t *hot, uint32_t *out, uint32_t first) {
    __shared__ uint32_t tile_a[LANES], tile_hot[LANES];
    uint32_t row = start(first + blockIdx.x), sum = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) {
        copy_async(&tile_a[lane()], &A[at(row)]);
        copy_async(&tile_hot[lane()], &hot[at(row % HOT_ROWS)]);
        wait_copies<1>();
        row = tile_a[lane()];
        wait_copies<0>();
        sum = fold(sum, row + tile_hot[lane()]);
    }
    out[thread()] = sum;
}

extern "C" __global__ void copy_stages(const uint32_t *A, const uint32_t *B, uint32_t *out, uint32_t first) {
    __shared__ uint32_t tile[STAGES][LANES];
    uint32_t row = start(first + blockIdx.x), sum = 0;
    for (uint32_t stage = 0; stage < STAGES - 1; stage++, row = onward(row)) copy_async(&tile[stage][lane()], &B[at(row)]);
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++, row = onward(row)) {
        wait_copies<STAGES - 2>();
        sum = fold(sum, tile[step % STAGES][lane()]);
        copy_async(&tile[(step + STAGES - 1) % STAGES][lane()], &A[at(row)]);
    }
    wait_copies<0>();
    out[thread()] = sum;
}

extern "C" __global__ void shared_chain(const uint32_t *ring, uint32_t *out) {
    __shared__ uint32_t links[RING];
#pragma unroll 1
    for (uint32_t index = lane(); index < RING; index += LANES) links[index] = ring[index];
    __syncwarp();
    uint32_t place = thread();
#pragma unroll 4
    for (uint32_t step = 0; step < LINKS; step++) place = links[place];
    out[thread()] = place;
}

extern "C" __global__ void atomic_chain(uint32_t *A, const uint32_t *hot, uint32_t *out, uint32_t zero, uint32_t first) {
    uint32_t row = start(first + blockIdx.x), sum = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t old = atomicAdd(&A[at(row)], zero);
        uint32_t h = hot[at(row % HOT_ROWS)];
        sum = fold(fold(sum, old), h);
        row = old;
    }
    out[thread()] = sum;
}

__device__ __noinline__ uint32_t fetch(const uint32_t *table, uint32_t row) { return table[at(row)]; }

extern "C" __global__ void callee(const uint32_t *A, const uint32_t *hot, uint32_t *out, uint32_t first) {
    uint32_t row = start(first + blockIdx.x), sum = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) {
        row = fetch(A, row);
        sum = fold(fold(sum, row), hot[at(row % HOT_ROWS)]);
    }
    out[thread()] = sum;
}

// An mbarrier on which one thread arrives, and the bytes that it announces.
struct __align__(8) Arrival {
    uint64_t state;
    __device__ void begin() {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&state)) : "memory");
    }
    __device__ void expect(uint32_t bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state)), "r"(bytes) : "memory");
    }
    __device__ void wait(uint32_t parity) {
        asm volatile("{\n\t"
                     ".reg .pred done;\n\t"
                     "again:\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                     "@!done bra again;\n\t"
                     "}" ::"r"(shared_address(&state)), "r"(parity)
                     : "memory");
    }
};

// Makes mbarriers known to the unit that copies.
__device__ inline void publish() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void copy_row(uint32_t *to, const CUtensorMap *map, uint32_t row, Arrival *arrival) {
    arrival->expect(ROW_BYTES);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                     shared_address(to)),
                 "l"(map), "r"(0), "r"(row), "r"(shared_address(&arrival->state))
                 : "memory");
}

__device__ inline void copy_row(uint32_t *to, const uint32_t *from, Arrival *arrival) {
    arrival->expect(ROW_BYTES);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(ROW_BYTES), "r"(shared_address(&arrival->state))
                 : "memory");
}

extern "C" __global__ void tensor_maps(const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap hot, uint32_t *out, uint32_t first) {
    __shared__ alignas(128) uint32_t tile_a[LANES], tile_hot[LANES];
    __shared__ Arrival of_a, of_hot;
    if (lane() == 0) of_a.begin(), of_hot.begin(), publish();
    __syncwarp();
    uint32_t row = start(first + blockIdx.x), sum = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) {
        if (lane() == 0) {
            copy_row(tile_a, &A, row, &of_a);
            copy_row(tile_hot, &hot, row % HOT_ROWS, &of_hot);
        }
        __syncwarp();
        of_a.wait(step & 1);
        row = tile_a[lane()];
        of_hot.wait(step & 1);
        sum = fold(sum, row + tile_hot[lane()]);
        __syncwarp();
    }
    out[thread()] = sum;
}

extern "C" __global__ void bulk_copies(const uint32_t *A, const uint32_t *hot, uint32_t *out, uint32_t first) {
    __shared__ alignas(128) uint32_t tile_a[LANES], tile_hot[LANES];
    __shared__ Arrival of_a, of_hot;
    if (lane() == 0) of_a.begin(), of_hot.begin(), publish();
    __syncwarp();
    uint32_t row = start(first + blockIdx.x), sum = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < STEPS; step++) {
        if (lane() == 0) {
            copy_row(tile_a, &A[row * LANES], &of_a);
            copy_row(tile_hot, &hot[row % HOT_ROWS * LANES], &of_hot);
        }
        __syncwarp();
        of_a.wait(step & 1);
        row = tile_a[lane()];
        of_hot.wait(step & 1);
        sum = fold(sum, row + tile_hot[lane()]);
        __syncwarp();
    }
    out[thread()] = sum;
}

// What the kernels compute, step by step on the host. A step gets the sum and the row, and changes both.
static uint32_t steps(uint32_t thread, bool gives_row, std::function<void(uint32_t &sum, uint32_t &row)> step) {
    uint32_t sum = 0, row = start(thread / LANES);
    for (uint32_t index = 0; index < STEPS; index++) step(sum, row);
    return gives_row ? row : sum;
}

static uint32_t one_use_result(uint32_t thread) {
    return steps(thread, true, [](uint32_t &, uint32_t &row) { row = (in_a(row) + 2 * in_b(row)) & MASK; });
}

static uint32_t one_use_hot_result(uint32_t thread) {
    return steps(thread, true, [](uint32_t &, uint32_t &row) { row = (in_a(row) + 4 * in_hot(row % HOT_ROWS)) & MASK; });
}

// own_uses and atomic_chain: hot's row is that of A's row before.
static uint32_t own_uses_result(uint32_t thread) {
    return steps(thread, false, [](uint32_t &sum, uint32_t &row) {
        sum = fold(fold(sum, in_a(row)), in_hot(row % HOT_ROWS));
        row = in_a(row);
    });
}

static uint32_t carried_result(uint32_t thread) {
    uint32_t value = in_b(start(thread / LANES));
    uint32_t sum = steps(thread, false, [&](uint32_t &sum, uint32_t &row) {
        sum = fold(sum, value ^ 1);
        row = onward(row);
        value = in_a(row);
        sum = fold(sum, in_hot(sum % HOT_ROWS));
    });
    return fold(sum, value);
}

static uint32_t either_result(uint32_t thread) {
    bool odd = thread / LANES % 4 != 0;
    return steps(thread, true, [=](uint32_t &, uint32_t &row) { row = odd ? in_b(row) : in_a(row); });
}

static uint32_t halves_result(uint32_t thread) {
    bool low = thread % LANES < LANES / 2;
    uint32_t step = 0;
    return steps(thread, true, [=](uint32_t &, uint32_t &row) mutable {
        row = low ? in_a(row) : fold(step, in_hot(row % HOT_ROWS));
        step++;
    });
}

// copy_groups, tensor_maps and bulk_copies: both rows are known before either copy.
static uint32_t copies_result(uint32_t thread) {
    return steps(thread, false, [](uint32_t &sum, uint32_t &row) {
        uint32_t h = in_hot(row % HOT_ROWS);
        row = in_a(row);
        sum = fold(sum, row + h);
    });
}

static uint32_t copy_stages_result(uint32_t thread) {
    uint32_t step = 0;
    return steps(thread, false, [=](uint32_t &sum, uint32_t &row) mutable {
        sum = fold(sum, step++ < STAGES - 1 ? in_b(row) : in_a(row));
        row = onward(row);
    });
}

static uint32_t shared_chain_result(uint32_t thread) {
    uint32_t place = thread % (WARPS * LANES);
    for (uint32_t step = 0; step < LINKS; step++) place = link(place, RING - 1);
    return place;
}

static uint32_t callee_result(uint32_t thread) {
    return steps(thread, false, [](uint32_t &sum, uint32_t &row) {
        row = in_a(row);
        sum = fold(fold(sum, row), in_hot(row % HOT_ROWS));
    });
}

// A tensor map of a buffer of rows, one row a copy. The driver's entry point is asked for, so nothing links to it.
static CUtensorMap rows_of(const Buffer &buffer) {
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    if (!entry || found != cudaDriverEntryPointSuccess) {
        fprintf(stderr, "blame_truth: the driver has no cuTensorMapEncodeTiled\n");
        exit(1);
    }
    CUtensorMap map;
    cuuint64_t sizes[2] = {LANES, buffer.bytes / ROW_BYTES}, strides[1] = {ROW_BYTES};
    cuuint32_t box[2] = {LANES, 1}, each[2] = {1, 1};
    auto encode = (decltype(&cuTensorMapEncodeTiled))entry;
    CUresult code = encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, buffer.data, sizes, strides, box, each,
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (code != CUDA_SUCCESS) {
        fprintf(stderr, "blame_truth: cuTensorMapEncodeTiled gives %d\n", (int)code);
        exit(1);
    }
    return map;
}

struct Buffers {
    Buffer A{"A", made(size_t(LANES) << ROW_BITS, [](uint32_t index) { return in_a(index / LANES); })};
    Buffer B{"B", made(size_t(LANES) << ROW_BITS, [](uint32_t index) { return in_b(index / LANES); })};
    Buffer hot{"hot", made(LANES * HOT_ROWS, [](uint32_t index) { return in_hot(index / LANES); })};
    Buffer ring{"ring", made(RING, [](uint32_t index) { return link(index, RING - 1); })};
    Buffer out{"out", std::vector<uint32_t>(LANES * WARPS)};
};

static std::vector<Kernel> kernels(const Buffers &buffers) {
    uint32_t *A = buffers.A.data, *B = buffers.B.data, *hot = buffers.hot.data, *out = buffers.out.data;
    const uint32_t *ring = buffers.ring.data;
    CUtensorMap map_a = rows_of(buffers.A), map_hot = rows_of(buffers.hot);
    const uint64_t threads = LANES * WARPS, one = threads * STEPS, two = 2 * one;
    const char *scoreboard = "long_scoreboard";
    return {
        {"one_use", two, threads, 0, scoreboard, {{"A", 0.35, 0.65}, {"B", 0.35, 0.65}},
         "one instruction needs a row of each, loaded side by side from buffers of the same size: equal halves",
         [=](uint32_t first) { one_use<<<WARPS, LANES>>>(A, B, out, first); }, one_use_result},
        {"one_use_hot", two, threads, 0, scoreboard, {{"A", 0.8, 1}, {"hot", 0, 0.2}},
         "one instruction needs both rows, and when A's row has come from device memory, hot's is there",
         [=](uint32_t first) { one_use_hot<<<WARPS, LANES>>>(A, hot, out, first); }, one_use_hot_result},
        {"own_uses", two, threads, 0, scoreboard, {{"A", 0.95, 1}, {"hot", 0, 0.05}},
         "A's row is used first, and when it has come hot's is there; hot's load stands between A's and the use",
         [=](uint32_t first) { own_uses<<<WARPS, LANES>>>(A, hot, out, first); }, own_uses_result},
        {"carried", two + threads, threads, 0, scoreboard, {{"A", 0.85, 1}, {"B", 0, 0.05}, {"hot", 0, 0.1}},
         "the first instruction of the loop waits for the load at its end; only the first iteration waits for B",
         [=](uint32_t first) { carried<<<WARPS, LANES>>>(A, B, hot, out, first); }, carried_result},
        {"either", one, threads, 0, scoreboard, {{"A", 0.15, 0.35}, {"B", 0.65, 0.85}},
         "one warp in four executes A's load, the others B's, as far away: the stalls divide as the loads do",
         [=](uint32_t first) { either<<<WARPS, LANES>>>(A, B, out, first); }, either_result},
        {"halves", one, threads, 0, scoreboard, {{"A", 0.9, 1}, {"hot", 0, 0.1}},
         "each half waits in a loop of its own, A's for device memory, hot's for L1",
         [=](uint32_t first) { halves<<<WARPS, LANES>>>(A, hot, out, first); }, halves_result},
        {"copy_groups", two, threads, 0, scoreboard, {{"A", 0.9, 1}, {"hot", 0, 0.1}},
         "the first wait is for all groups but the newest, which is hot's; when A's has come, hot's is there",
         [=](uint32_t first) { copy_groups<<<WARPS, LANES>>>(A, hot, out, first); }, copies_result},
        {"copy_stages", one + (STAGES - 1) * threads, threads, 0, scoreboard, {{"A", 0.8, 1}, {"B", 0, 0.2}},
         "each wait is for the oldest of three groups: B's in the first three iterations, A's in the others",
         [=](uint32_t first) { copy_stages<<<WARPS, LANES>>>(A, B, out, first); }, copy_stages_result},
        {"shared_chain", uint64_t(RING) * WARPS, threads, 0, "short_scoreboard", {{"ring", 0, 0.02}},
         "each link needs the one before, in shared memory; ring is only read to fill it",
         [=](uint32_t) { shared_chain<<<WARPS, LANES>>>(ring, out); }, shared_chain_result},
        {"atomic_chain", one, threads, one, scoreboard, {{"A", 0.95, 1}, {"hot", 0, 0.05}},
         "each step needs the old value of an atomic addition to A; hot's load stands between it and its use",
         [=](uint32_t first) { atomic_chain<<<WARPS, LANES>>>(A, hot, out, 0, first); }, own_uses_result},
        {"callee", two, threads, 0, scoreboard, {{"A", 0.85, 1}, {"hot", 0, 0.15}},
         "the called function loads A's row, and returns when it has come; hot's row comes from L1",
         [=](uint32_t first) { callee<<<WARPS, LANES>>>(A, hot, out, first); }, callee_result},
        {"tensor_maps", 0, threads, 0, scoreboard, {{"A", 0.85, 1}, {"hot", 0, 0.15}},
         "A's mbarrier is waited for first, and when A's row has come hot's is there; hot's copy was issued last",
         [=](uint32_t first) { tensor_maps<<<WARPS, LANES>>>(map_a, map_hot, out, first); }, copies_result},
        {"bulk_copies", 0, threads, 0, scoreboard, {{"A", 0.85, 1}, {"hot", 0, 0.15}},
         "as tensor_maps; the pointers among the kernel's parameters lead to the buffers",
         [=](uint32_t first) { bulk_copies<<<WARPS, LANES>>>(A, hot, out, first); }, copies_result},
    };
}

// Launches, each from rows that no launch before has begun at, and checks what each computes.
static bool launch(const Kernel &kernel, const Buffers &buffers, uint32_t launches) {
    static uint32_t first = 0;
    bool right = true;
    for (uint32_t index = 0; index < launches; index++, first += WARPS) {
        kernel.launch(first);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        right &= equal(buffers.out, [&](uint32_t thread) { return kernel.result(first * LANES + thread); });
    }
    return right;
}

static bool run(const Kernel &kernel, const Buffers &buffers, uint32_t launches) {
    bool right = launch(kernel, buffers, launches);
    printf("{\"kernel\": \"%s\", \"grid\": [%u, 1, 1], \"block\": [%u, 1, 1], \"launches\": %u, ", kernel.name, WARPS, LANES, launches);
    printf("\"reads\": %llu, \"writes\": %llu, \"atomics\": %llu, ", (unsigned long long)kernel.reads,
           (unsigned long long)kernel.writes, (unsigned long long)kernel.atomics);
    print_shares(kernel);
    printf(", ");
    print_buffers({&buffers.A, &buffers.B, &buffers.hot, &buffers.ring, &buffers.out});
    printf(", \"right\": %s}\n", right ? "true" : "false");
    return right;
}

struct Options {
    uint32_t launches = 1;
    std::string only;
};

static Options parse(int count, char **words) {
    Options options;
    for (int index = 1; index < count; index += 2) {
        std::string word = words[index];
        const char *value = index + 1 < count ? words[index + 1] : "";
        if (word == "--launches" && atoi(value) > 0) options.launches = atoi(value);
        else if (word == "--only" && *value) options.only = value;
        else {
            fprintf(stderr, "usage: blame_truth [--launches N] [--only KERNEL,...]\n");
            exit(2);
        }
    }
    return options;
}

int main(int count, char **words) {
    Options options = parse(count, words);
    Buffers buffers;
    bool right = true;
    for (const Kernel &kernel : kernels(buffers))
        if (options.only.empty() || ("," + options.only + ",").find("," + std::string(kernel.name) + ",") != std::string::npos)
            right &= run(kernel, buffers, options.launches);
    return right ? 0 : 1;
}
