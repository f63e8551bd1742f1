// Kernels that each access memory wrongly in one known way, and the correct twin of each.
//
//   sanitize_truth wrong|right [--only NAME,...]
//
// A kernel is a template of one flag, WRONG, or gets wrong memory. A line `// at: NAME` holds the wrong access of case NAME,
// and `// with: NAME` the access that it meets. `right` also accesses memory that no cudaMalloc returned: variables of the
// module, managed and mapped memory, a pool, and memory mapped by hand. `--only device_heap` uses the heap of the device. Buffers stay allocated to the
// end: nothing is allocated where another case's buffer was. Prints a line of JSON for each case.
//
// Build: nvcc -O3 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o sanitize_truth sanitize_truth.cu -lcuda

#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda/barrier>
#include <cuda_pipeline_primitives.h>
#include <fstream>

#include "truth.h"

// Barriers of libcu++ in shared memory.
#pragma nv_diag_suppress static_var_with_dynamic_init

namespace {

constexpr int BLOCKS = 4, THREADS = 64, COUNT = BLOCKS * THREADS, ODD = 250, BINS = 61;

__device__ int thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

__device__ uint32_t load(const uint32_t *address) { return *(const volatile uint32_t *)address; }

__device__ void store(uint32_t *address, uint32_t value) { *(volatile uint32_t *)address = value; }

// Out of bounds.

template <bool WRONG> __global__ void late_write(uint32_t *out, int count) {
    int i = thread_number();
    if (i < count + WRONG) out[i] = i; // at: late_write
}

template <bool WRONG> __global__ void early_read(const uint32_t *in, uint32_t *out, int count) {
    int i = thread_number();
    if (i < count && i >= !WRONG) out[i] = load(in + i - 1); // at: early_read
}

template <bool WRONG> __global__ void wide_read(const uint32_t *in, uint32_t *out, int count) {
    int i = thread_number();
    if (i >= count / 4 + WRONG) return;
    uint32_t a, b, c, d;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(in + 4 * i)); // at: wide_read
    out[i] = a + b + c + d;
}

template <bool WRONG> __global__ void pitched_write(uint32_t *out, int rows, int columns) {
    for (int row = blockIdx.x; row < rows; row += gridDim.x) out[row * (columns + 2 * WRONG) + threadIdx.x] = row; // at: pitched_write
}

template <bool WRONG> __global__ void late_atomic(uint32_t *bins) {
    atomicAdd(bins + thread_number() % (BINS + WRONG), 1); // at: late_atomic
}

template <bool WRONG> __global__ void reversed_write(uint32_t *out, int count) {
    int i = thread_number();
    if (i < count) out[count - i - !WRONG] = i; // at: reversed_write
}

template <bool WRONG> __global__ void copied_tile(const uint32_t *in, uint32_t *out, int count) {
    __shared__ uint32_t tile[THREADS];
    int i = thread_number();
    if (i < count + WRONG) __pipeline_memcpy_async(tile + threadIdx.x, in + i, 4); // at: copied_tile
    __pipeline_commit();
    __pipeline_wait_prior(0);
    if (i < count) out[i] = tile[threadIdx.x];
}

__device__ __noinline__ void store_there(uint32_t *address, uint32_t value) {
    *address = value; // at: late_call
}

template <bool WRONG> __global__ void late_call(uint32_t *out, int count) {
    int i = thread_number();
    if (i < count + WRONG) store_there(out + i, i);
}

// After free.

__global__ void freed_read(const uint32_t *in, uint32_t *out) {
    out[thread_number()] = load(in + thread_number()); // at: freed_read
}

__global__ void freed_write(uint32_t *out) {
    out[thread_number()] = thread_number(); // at: freed_write
}

__global__ void pool_read(const uint32_t *in, uint32_t *out) {
    out[thread_number()] = load(in + thread_number()); // at: pool_read
}

// Uninitialized.

__global__ void unset_read(const uint32_t *in, uint32_t *out) {
    out[thread_number()] = load(in + thread_number()); // at: unset_read
}

__global__ void half_set(const uint32_t *in, uint32_t *out) {
    out[thread_number()] = load(in + thread_number()); // at: half_set
}

template <bool WRONG> __global__ void set_bytes(uint8_t *out) {
    for (int byte = 0; byte < 4 - WRONG; byte++) ((volatile uint8_t *)out)[4 * thread_number() + byte] = byte;
}

__global__ void byte_hole(const uint32_t *in, uint32_t *out) {
    out[thread_number()] = load(in + thread_number()); // at: byte_hole
}

template <bool WRONG> __global__ void set_words(uint32_t *out) {
    if (thread_number() < COUNT - WRONG) out[thread_number()] = 1;
}

__global__ void tail_unset(const uint32_t *in, uint32_t *out) {
    out[thread_number()] = load(in + thread_number()); // at: tail_unset
}

__global__ void unset_atomic(uint32_t *bins) {
    atomicAdd(bins + thread_number() % BINS, 1); // at: unset_atomic
}

// Races between blocks.

template <bool WRONG> __global__ void racing_sum(const uint32_t *in, uint32_t *sum) {
    if (threadIdx.x) return;
    uint32_t value = in[thread_number()];
    if (WRONG)
        *sum = *sum + value; // at: racing_sum
    else
        atomicAdd(sum, value);
}

__global__ void in_place(const uint32_t *in, uint32_t *out, int count) {
    int i = thread_number();
    if (i + 1 >= count) return;
    uint32_t next = in[i + 1]; // with: in_place
    out[i] = next; // at: in_place
}

template <bool WRONG> __global__ void meeting_tiles(uint32_t *out) {
    if (threadIdx.x < THREADS + WRONG) out[blockIdx.x * THREADS + threadIdx.x] = blockIdx.x; // at: meeting_tiles
}

template <bool WRONG> __global__ void early_total(const uint32_t *in, uint32_t *parts, uint32_t *total, uint32_t *ticket) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = in[thread_number()]; // with: early_total
        __threadfence();
        last = WRONG ? blockIdx.x == gridDim.x - 1 : atomicAdd(ticket, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x) return;
    uint32_t sum = 0;
    for (int block = 0; block < gridDim.x; block++) sum += parts[block]; // at: early_total
    *total = sum;
}

// The same without a fence: nothing in the kernel orders anything.
__global__ void plain_total(const uint32_t *in, uint32_t *parts, uint32_t *total) {
    if (threadIdx.x) return;
    parts[blockIdx.x] = in[thread_number()]; // with: plain_total
    if (blockIdx.x != gridDim.x - 1) return;
    uint32_t sum = 0;
    for (int block = 0; block < gridDim.x; block++) sum += parts[block]; // at: plain_total
    *total = sum;
}

__global__ void separate_total(const uint32_t *in, uint32_t *parts, uint32_t *) {
    if (threadIdx.x == 0) parts[blockIdx.x] = in[thread_number()];
}

__global__ void grid_total(const uint32_t *in, uint32_t *parts, uint32_t *total) {
    if (threadIdx.x == 0) parts[blockIdx.x] = in[thread_number()];
    cooperative_groups::this_grid().sync();
    if (thread_number()) return;
    uint32_t sum = 0;
    for (int block = 0; block < gridDim.x; block++) sum += parts[block];
    *total = sum;
}

__global__ void flagged(uint32_t *data, uint32_t *flag, uint32_t *out) {
    if (threadIdx.x) return;
    uint32_t ready = 1;
    if (blockIdx.x == 0) {
        *data = 5;
        asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(ready) : "memory");
    } else {
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
        while (!ready);
        out[blockIdx.x] = *data;
    }
}

// Shared memory.

template <bool WRONG> __global__ void unsynced_reverse(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    store(tile + threadIdx.x, in[thread_number()]); // with: unsynced_reverse
    if (!WRONG) __syncthreads();
    out[thread_number()] = load(tile + THREADS - 1 - threadIdx.x); // at: unsynced_reverse
}

template <bool WRONG> __global__ void unsynced_sum(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    store(tile + threadIdx.x, in[thread_number()]); // with: unsynced_sum
    for (int half = THREADS / 2; half; half /= 2) {
        if (!WRONG) __syncthreads();
        uint32_t sum = 0;
        if (threadIdx.x < half) sum = load(tile + threadIdx.x) + load(tile + threadIdx.x + half); // at: unsynced_sum
        if (!WRONG) __syncthreads();
        if (threadIdx.x < half) store(tile + threadIdx.x, sum); // with: unsynced_sum
    }
    if (threadIdx.x == 0) out[blockIdx.x] = load(tile);
}

template <bool WRONG> __global__ void unsynced_loop(const uint32_t *in, uint32_t *out, int steps) {
    __shared__ uint32_t tile[THREADS];
    uint32_t sum = 0;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        store(tile + threadIdx.x, in[thread_number()] + step); // at: unsynced_loop
        __syncthreads();
        sum += load(tile + THREADS - 1 - threadIdx.x); // with: unsynced_loop
        if (!WRONG) __syncthreads();
    }
    out[thread_number()] = sum;
}

template <bool WRONG> __global__ void shared_meeting(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    store(tile + threadIdx.x % (WRONG ? 32 : THREADS), in[thread_number()]); // at: shared_meeting
    __syncthreads();
    out[thread_number()] = load(tile + threadIdx.x % (WRONG ? 32 : THREADS));
}

// Correct in ways that are easily taken for wrong.

__device__ uint32_t module_words[COUNT];
__constant__ uint32_t constant_words[COUNT];

__global__ void module_variable(uint32_t *out) {
    store(module_words + thread_number(), thread_number());
    out[thread_number()] = load(module_words + thread_number()) + load(constant_words + (thread_number() * 7) % COUNT);
}

__global__ void device_heap(uint32_t *out) {
    uint32_t *words = (uint32_t *)malloc(64);
    for (int word = 0; word < 16; word++) store(words + word, word);
    out[thread_number()] = load(words + thread_number() % 16);
    free(words);
}

__global__ void any_memory(uint32_t *words, uint32_t *out) {
    store(words + thread_number(), thread_number());
    out[thread_number()] = load(words + thread_number());
}

__global__ void generic_memory(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    uint32_t own[4];
    for (int word = 0; word < 4; word++) store(own + word, in[word]);
    store(tile + threadIdx.x, in[thread_number()]);
    const uint32_t *which = in[threadIdx.x] % 3 == 0 ? in + threadIdx.x : in[threadIdx.x] % 3 == 1 ? tile + threadIdx.x : own + threadIdx.x % 4;
    out[thread_number()] = load(which);
}

__global__ void prints(uint32_t *out) {
    if (thread_number() == 0) printf("%s", "");
    out[thread_number()] = 1;
}

__global__ void barrier_object(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    store(tile + threadIdx.x, in[thread_number()]);
    barrier.arrive_and_wait();
    out[thread_number()] = load(tile + THREADS - 1 - threadIdx.x);
}

__global__ void named_barrier(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    if (threadIdx.x < 32) {
        store(tile + threadIdx.x, in[thread_number()]);
        asm volatile("bar.arrive 1, 64;" ::: "memory");
        out[thread_number()] = 0;
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[thread_number()] = load(tile + threadIdx.x - 32);
    }
}

__global__ void own_slices(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    uint32_t *own = tile + threadIdx.x / 32 * 32;
    store(own + threadIdx.x % 32, in[thread_number()]);
    __syncwarp();
    out[thread_number()] = load(own + 31 - threadIdx.x % 32);
}

__global__ void shared_bins(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t bins[8];
    if (threadIdx.x < 8) store(bins + threadIdx.x, 0);
    __syncthreads();
    atomicAdd(bins + in[thread_number()] % 8, 1);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(out + threadIdx.x, load(bins + threadIdx.x));
}

struct Words {
    std::string name;
    uint32_t *data = nullptr;
    size_t bytes;
    Words(std::string name, int count, bool set = true) : name(name), bytes(count * 4) {
        CHECK(cudaMalloc(&data, bytes));
        std::vector<uint32_t> values = made(count, [](uint32_t index) { return index; });
        if (set) CHECK(cudaMemcpy(data, values.data(), bytes, cudaMemcpyHostToDevice));
    }
    operator uint32_t *() const { return data; }
};

// The line of this file that ends in a mark, 0 if there is none.
int line_with(const std::string &mark) {
    std::ifstream file(__FILE__);
    std::string text;
    for (int line = 1; std::getline(file, text); line++)
        if (text.size() >= mark.size() && text.compare(text.size() - mark.size(), mark.size(), mark) == 0) return line;
    return 0;
}

struct Place {
    std::string buffer;
    const void *data;
    size_t bytes;
    long element;
};

struct Case {
    const char *name, *defect;
    std::function<Place(bool wrong)> run;
};

Place at(const Words &words, long element) { return {words.name, words.data, words.bytes, element}; }

#define LAUNCH(kernel, ...)                                                                              \
    do {                                                                                                 \
        if (wrong)                                                                                       \
            kernel<true><<<BLOCKS, THREADS>>>(__VA_ARGS__);                                              \
        else                                                                                             \
            kernel<false><<<BLOCKS, THREADS>>>(__VA_ARGS__);                                             \
    } while (0)

std::vector<Case> cases() {
    std::vector<Case> all;
    auto add = [&](const char *name, const char *defect, std::function<Place(bool)> run) { all.push_back({name, defect, run}); };
    add("late_write", "out_of_bounds", [](bool wrong) {
        Words out("late_write.out", ODD);
        LAUNCH(late_write, out, ODD);
        return at(out, ODD);
    });
    add("early_read", "out_of_bounds", [](bool wrong) {
        Words before("early_read.before", ODD), in("early_read.in", ODD), out("early_read.out", ODD);
        LAUNCH(early_read, in, out, ODD);
        return at(in, -1);
    });
    add("wide_read", "out_of_bounds", [](bool wrong) {
        Words in("wide_read.in", ODD), out("wide_read.out", ODD);
        LAUNCH(wide_read, in, out, ODD);
        return at(in, ODD);
    });
    add("pitched_write", "out_of_bounds", [](bool wrong) {
        Words out("pitched_write.out", 15 * THREADS);
        LAUNCH(pitched_write, out, 15, THREADS);
        return at(out, 15 * THREADS);
    });
    add("late_atomic", "out_of_bounds", [](bool wrong) {
        Words bins("late_atomic.bins", BINS);
        LAUNCH(late_atomic, bins);
        return at(bins, BINS);
    });
    add("reversed_write", "out_of_bounds", [](bool wrong) {
        Words out("reversed_write.out", ODD);
        LAUNCH(reversed_write, out, ODD);
        return at(out, ODD);
    });
    add("copied_tile", "out_of_bounds", [](bool wrong) {
        Words in("copied_tile.in", ODD), out("copied_tile.out", ODD);
        LAUNCH(copied_tile, in, out, ODD);
        return at(in, ODD);
    });
    add("late_call", "out_of_bounds", [](bool wrong) {
        Words out("late_call.out", ODD);
        LAUNCH(late_call, out, ODD);
        return at(out, ODD);
    });
    add("freed_read", "use_after_free", [](bool wrong) {
        Words in("freed_read.in", COUNT), out("freed_read.out", COUNT);
        if (wrong) CHECK(cudaFree(in));
        freed_read<<<BLOCKS, THREADS>>>(in, out);
        return at(in, 0);
    });
    add("freed_write", "use_after_free", [](bool wrong) {
        Words out("freed_write.out", 3 * COUNT);
        if (wrong) CHECK(cudaFree(out));
        freed_write<<<BLOCKS, THREADS>>>(out);
        return at(out, 0);
    });
    add("pool_read", "use_after_free", [](bool wrong) {
        uint32_t *in;
        Words out("pool_read.out", COUNT);
        CHECK(cudaMallocAsync(&in, COUNT * 4, 0));
        CHECK(cudaMemsetAsync(in, 1, COUNT * 4, 0));
        if (wrong) CHECK(cudaFreeAsync(in, 0));
        pool_read<<<BLOCKS, THREADS>>>(in, out);
        if (!wrong) CHECK(cudaFreeAsync(in, 0));
        return Place{"pool_read.in", in, COUNT * 4, 0};
    });
    add("unset_read", "uninitialized_read", [](bool wrong) {
        Words in("unset_read.in", COUNT, false), out("unset_read.out", COUNT);
        if (!wrong) CHECK(cudaMemset(in, 1, in.bytes));
        unset_read<<<BLOCKS, THREADS>>>(in, out);
        return at(in, 0);
    });
    add("half_set", "uninitialized_read", [](bool wrong) {
        Words in("half_set.in", COUNT, false), out("half_set.out", COUNT);
        CHECK(cudaMemset(in, 1, wrong ? in.bytes / 2 : in.bytes));
        half_set<<<BLOCKS, THREADS>>>(in, out);
        return at(in, COUNT / 2);
    });
    add("byte_hole", "uninitialized_read", [](bool wrong) {
        Words in("byte_hole.in", COUNT, false), out("byte_hole.out", COUNT);
        LAUNCH(set_bytes, (uint8_t *)in.data);
        byte_hole<<<BLOCKS, THREADS>>>(in, out);
        return at(in, 0);
    });
    add("tail_unset", "uninitialized_read", [](bool wrong) {
        Words in("tail_unset.in", COUNT, false), out("tail_unset.out", COUNT);
        LAUNCH(set_words, in);
        tail_unset<<<BLOCKS, THREADS>>>(in, out);
        return at(in, COUNT - 1);
    });
    add("unset_atomic", "uninitialized_read", [](bool wrong) {
        Words bins("unset_atomic.bins", BINS, !wrong);
        unset_atomic<<<BLOCKS, THREADS>>>(bins);
        return at(bins, 0);
    });
    add("racing_sum", "block_race", [](bool wrong) {
        Words in("racing_sum.in", COUNT), sum("racing_sum.sum", 1);
        LAUNCH(racing_sum, in, sum);
        return at(sum, 0);
    });
    add("in_place", "block_race", [](bool wrong) {
        Words in("in_place.in", COUNT), out("in_place.out", COUNT);
        in_place<<<BLOCKS, THREADS>>>(in, wrong ? in : out, COUNT);
        return at(in, THREADS);
    });
    add("meeting_tiles", "block_race", [](bool wrong) {
        Words out("meeting_tiles.out", COUNT + 64);
        if (wrong) meeting_tiles<true><<<BLOCKS, THREADS + 32>>>(out);
        else meeting_tiles<false><<<BLOCKS, THREADS + 32>>>(out);
        return at(out, THREADS);
    });
    add("plain_total", "block_race", [](bool wrong) {
        Words in("plain_total.in", COUNT), parts("plain_total.parts", BLOCKS), total("plain_total.total", 1);
        if (wrong) plain_total<<<BLOCKS, THREADS>>>(in, parts, total);
        else separate_total<<<BLOCKS, THREADS>>>(in, parts, total);
        return at(parts, 0);
    });
    // Fences are there, and nothing waits: what the machine code shows is not enough to decide.
    add("early_total", "undecided", [](bool wrong) {
        Words in("early_total.in", COUNT), parts("early_total.parts", BLOCKS), total("early_total.total", 1), ticket("early_total.ticket", 1);
        LAUNCH(early_total, in, parts, total, ticket);
        return at(parts, 0);
    });
    add("unsynced_reverse", "shared_race", [](bool wrong) {
        Words in("unsynced_reverse.in", COUNT), out("unsynced_reverse.out", COUNT);
        LAUNCH(unsynced_reverse, in, out);
        return at(in, 0);
    });
    add("unsynced_sum", "shared_race", [](bool wrong) {
        Words in("unsynced_sum.in", COUNT), out("unsynced_sum.out", COUNT);
        LAUNCH(unsynced_sum, in, out);
        return at(in, 0);
    });
    add("unsynced_loop", "shared_race", [](bool wrong) {
        Words in("unsynced_loop.in", COUNT), out("unsynced_loop.out", COUNT);
        LAUNCH(unsynced_loop, in, out, 4);
        return at(in, 0);
    });
    add("shared_meeting", "shared_race", [](bool wrong) {
        Words in("shared_meeting.in", COUNT), out("shared_meeting.out", COUNT);
        LAUNCH(shared_meeting, in, out);
        return at(in, 0);
    });
    add("moved_up", "overlapping_copy", [](bool wrong) {
        Words words("moved_up.words", COUNT);
        CHECK(cudaMemcpy(words + (wrong ? 16 : COUNT / 2), words, COUNT * 2, cudaMemcpyDeviceToDevice));
        return at(words, 16);
    });
    return all;
}

void run_right() {
    Words in("right.in", COUNT), out("right.out", COUNT), parts("right.parts", BLOCKS), total("right.total", 1), flag("right.flag", 1);
    uint32_t *managed, *host, *seen, *pool;
    CHECK(cudaMemcpyToSymbol(constant_words, std::vector<uint32_t>(COUNT, 1).data(), COUNT * 4));
    module_variable<<<BLOCKS, THREADS>>>(out);
    CHECK(cudaMallocManaged(&managed, COUNT * 4));
    any_memory<<<BLOCKS, THREADS>>>(managed, out);
    CHECK(cudaHostAlloc(&host, COUNT * 4, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&seen, host, 0));
    any_memory<<<BLOCKS, THREADS>>>(seen, out);
    void *registered = aligned_alloc(4096, 4096);
    CHECK(cudaHostRegister(registered, 4096, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&seen, registered, 0));
    any_memory<<<BLOCKS, THREADS>>>(seen, out);
    CHECK(cudaMallocAsync(&pool, COUNT * 4, 0));
    any_memory<<<BLOCKS, THREADS>>>(pool, out);
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr mapped;
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (cuMemCreate(&handle, 2 << 20, &prop, 0) == CUDA_SUCCESS && cuMemAddressReserve(&mapped, 2 << 20, 0, 0, 0) == CUDA_SUCCESS &&
        cuMemMap(mapped, 2 << 20, 0, handle, 0) == CUDA_SUCCESS && cuMemSetAccess(mapped, 2 << 20, &access, 1) == CUDA_SUCCESS)
        any_memory<<<BLOCKS, THREADS>>>((uint32_t *)mapped, out);
    generic_memory<<<BLOCKS, THREADS>>>(in, out);
    prints<<<BLOCKS, THREADS>>>(out);
    barrier_object<<<BLOCKS, THREADS>>>(in, out);
    named_barrier<<<BLOCKS, THREADS>>>(in, out);
    own_slices<<<BLOCKS, THREADS>>>(in, out);
    shared_bins<<<BLOCKS, THREADS>>>(in, out);
    CHECK(cudaMemset(flag, 0, 4));
    flagged<<<BLOCKS, THREADS>>>(parts, flag, out);
    uint32_t *a = in, *b = parts, *c = total;
    void *arguments[] = {&a, &b, &c};
    CHECK(cudaLaunchCooperativeKernel((void *)grid_total, dim3(BLOCKS), dim3(THREADS), arguments, 0, 0));
    CHECK(cudaDeviceSynchronize());
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&pool, COUNT * 4, stream));
    any_memory<<<BLOCKS, THREADS, 0, stream>>>(pool, out);
    CHECK(cudaFreeAsync(pool, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int time = 0; time < 2; time++) CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaDeviceSynchronize());
}

} // namespace

int main(int argc, char **argv) {
    bool wrong = argc > 1 && !strcmp(argv[1], "wrong");
    std::string only = argc > 3 && !strcmp(argv[2], "--only") ? "," + std::string(argv[3]) + "," : "";
    for (const Case &one : cases()) {
        if (!only.empty() && only.find("," + std::string(one.name) + ",") == std::string::npos) continue;
        Place place = one.run(wrong);
        cudaError_t error = cudaDeviceSynchronize();
        printf("{\"case\": \"%s\", \"defect\": \"%s\", \"line\": %d, \"with_line\": %d, \"buffer\": \"%s\", \"address\": %llu, "
               "\"bytes\": %zu, \"element\": %ld, \"error\": \"%s\"}\n",
               one.name, wrong ? one.defect : "", line_with(std::string("// at: ") + one.name), line_with(std::string("// with: ") + one.name),
               place.buffer.c_str(), (unsigned long long)(uintptr_t)place.data, place.bytes, place.element, cudaGetErrorName(error));
        cudaGetLastError();
    }
    if (!wrong && only.empty()) run_right();
    CHECK(cudaDeviceSynchronize());
    if (only == ",device_heap,") {
        Words out("device_heap.out", COUNT);
        device_heap<<<BLOCKS, THREADS>>>(out);
        CHECK(cudaDeviceSynchronize());
    }
}
