// More kernels and copies that each access memory wrongly in one known way, and the correct twin of each.
//
//   defect_truth wrong|right|both [NAME ...]
//
// A line `// at: NAME` holds the wrong access of case NAME, and `// with: NAME` the access that it meets. Buffers stay allocated to
// the end but for those of `use_after_free`. Prints a line of JSON for each case.
//
// Build: nvcc -O3 -std=c++17 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o defect_truth defect_truth.cu -lcuda

#include <cuda_pipeline_primitives.h>
#include <fstream>

#include "truth.h"

namespace {

constexpr int BLOCKS = 4, THREADS = 64, COUNT = BLOCKS * THREADS;

__device__ int thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

__device__ uint32_t load(const uint32_t *address) { return *(const volatile uint32_t *)address; }

__device__ void store(uint32_t *address, uint32_t value) { *(volatile uint32_t *)address = value; }

// Out of bounds.

template <bool WRONG> __global__ void image_blur(const uint32_t *in, uint32_t *out, int rows, int columns) {
    int row = blockIdx.x, column = threadIdx.x;
    int below = WRONG ? row + 1 : min(row + 1, rows - 1);
    uint32_t sum = load(in + row * columns + column) + load(in + below * columns + column); // at: image_blur
    out[row * columns + column] = sum;
}

template <bool WRONG> __global__ void strided_fill(uint32_t *out, int count) {
    for (int i = thread_number(); WRONG ? i <= count : i < count; i += gridDim.x * blockDim.x) store(out + i, i); // at: strided_fill
}

template <bool WRONG> __global__ void scatter_index(const uint32_t *index, uint32_t *out) {
    store(out + index[thread_number()] - !WRONG, 1); // at: scatter_index
}

struct Particle {
    uint32_t x, y, z;
};

template <bool WRONG> __global__ void particle_step(Particle *particles, int count) {
    int i = thread_number();
    if (i < count + WRONG) store(&particles[i].z, i); // at: particle_step
}

// After free.

__global__ void stream_freed(const uint32_t *in, uint32_t *out) {
    out[thread_number()] = load(in + thread_number()); // at: stream_freed
}

__global__ void list_walk(const uint32_t *const *rows, uint32_t *out) {
    out[thread_number()] = load(rows[blockIdx.x] + threadIdx.x); // at: list_walk
}

// Uninitialized.

__global__ void pitched_sum(const uint32_t *in, uint32_t *out, size_t pitch, int columns) {
    uint32_t sum = 0;
    for (int column = threadIdx.x; column < columns; column += THREADS) sum += load((const uint32_t *)((const char *)in + blockIdx.x * pitch) + column); // at: pitched_sum
    out[thread_number()] = sum;
}

template <bool WRONG> __global__ void even_set(uint32_t *out) { store(out + 2 * thread_number(), 1); if (!WRONG) store(out + 2 * thread_number() + 1, 1); }

__global__ void odd_read(const uint32_t *in, uint32_t *out) {
    out[thread_number()] = load(in + 2 * thread_number() + 1); // at: odd_read
}

__global__ void copied_part(const uint32_t *in, uint32_t *out) {
    out[thread_number()] = load(in + thread_number()); // at: copied_part
}

// Races between blocks.

template <bool WRONG> __global__ void last_flag(const uint32_t *in, uint32_t *found) {
    if (in[thread_number()] % 100 == 99) found[WRONG ? 0 : blockIdx.x] = thread_number(); // at: last_flag
}

template <bool WRONG> __global__ void halo_write(uint32_t *out) {
    out[thread_number()] = 1; // at: halo_write
    if (WRONG && threadIdx.x == 0 && blockIdx.x) out[thread_number() - 1] = 2; // with: halo_write
}

template <bool WRONG> __global__ void prefix_carry(uint32_t *data) {
    uint32_t before = blockIdx.x ? data[blockIdx.x * THREADS - 1] : 0; // with: prefix_carry
    if (WRONG || threadIdx.x != THREADS - 1) data[thread_number()] = before + threadIdx.x; // at: prefix_carry
}

// Shared memory, between warps.

template <bool WRONG> __global__ void ring_copy(const uint32_t *in, uint32_t *out, int steps) {
    __shared__ uint32_t ring[2][THREADS];
    uint32_t sum = 0;
    __pipeline_memcpy_async(&ring[0][threadIdx.x], in + threadIdx.x, 4);
    __pipeline_commit();
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        if (!WRONG) __syncthreads();
        if (step + 1 < steps) __pipeline_memcpy_async(&ring[(step + 1) % 2][threadIdx.x], in + (step + 1) % BLOCKS * THREADS + threadIdx.x, 4); // at: ring_copy
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += load(&ring[step % 2][THREADS - 1 - threadIdx.x]); // with: ring_copy
    }
    out[thread_number()] = sum;
}

template <bool WRONG> __global__ void early_use(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    __pipeline_memcpy_async(tile + threadIdx.x, in + thread_number(), 4); // at: early_use
    __pipeline_commit();
    if (!WRONG) __pipeline_wait_prior(0);
    __syncthreads();
    out[thread_number()] = load(tile + THREADS - 1 - threadIdx.x); // with: early_use
}

template <bool WRONG> __global__ void weak_wait(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[2][THREADS];
    for (int part = 0; part < 2; part++) {
        __pipeline_memcpy_async(&tile[part][threadIdx.x], in + part * THREADS + threadIdx.x, 4); // at: weak_wait
        __pipeline_commit();
    }
    if (WRONG) __pipeline_wait_prior(1); else __pipeline_wait_prior(0);
    __syncthreads();
    out[thread_number()] = load(&tile[0][THREADS - 1 - threadIdx.x]) + load(&tile[1][THREADS - 1 - threadIdx.x]); // with: weak_wait
}

template <bool WRONG> __global__ void unsynced_copy(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    __pipeline_memcpy_async(tile + threadIdx.x, in + thread_number(), 4); // at: unsynced_copy
    __pipeline_commit();
    __pipeline_wait_prior(0);
    if (!WRONG) __syncthreads();
    out[thread_number()] = load(tile + THREADS - 1 - threadIdx.x); // with: unsynced_copy
}

__device__ void bulk_copy(uint32_t *tile, const uint32_t *in, uint64_t *barrier) {
    uint32_t bar = (uint32_t)__cvta_generic_to_shared(barrier), to = (uint32_t)__cvta_generic_to_shared(tile);
    uint32_t bytes = THREADS * 4;
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(in), "r"(bytes), "r"(bar) : "memory");
}

__device__ void wait_phase(uint64_t *barrier, uint32_t phase) {
    uint32_t bar = (uint32_t)__cvta_generic_to_shared(barrier), ready = 0;
    while (!ready)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(ready) : "r"(bar), "r"(phase) : "memory");
}

template <bool WRONG> __global__ void bulk_early(const uint32_t *in, uint32_t *out) {
    __shared__ alignas(16) uint32_t tile[THREADS];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"((uint32_t)__cvta_generic_to_shared(&barrier)) : "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) bulk_copy(tile, in + blockIdx.x * THREADS, &barrier);
    if (!WRONG) wait_phase(&barrier, 0);
    out[thread_number()] = load(tile + THREADS - 1 - threadIdx.x); // at: bulk_early
    if (WRONG) wait_phase(&barrier, 0);
}

// Shared memory, within a warp.

template <bool WRONG> __global__ void lane_reverse(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    uint32_t *own = tile + threadIdx.x / 32 * 32;
    store(own + threadIdx.x % 32, in[thread_number()]); // at: lane_reverse
    if (!WRONG) __syncwarp();
    out[thread_number()] = load(own + 31 - threadIdx.x % 32); // with: lane_reverse
}

template <bool WRONG> __global__ void warp_sum(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    int lane = threadIdx.x % 32;
    uint32_t *own = tile + threadIdx.x / 32 * 32;
    store(own + lane, in[thread_number()]);
    __syncwarp();
    for (int half = 16; half; half /= 2) {
        uint32_t sum = lane < half ? load(own + lane) + load(own + lane + half) : 0; // with: warp_sum
        if (!WRONG) __syncwarp();
        if (lane < half) store(own + lane, sum); // at: warp_sum
        if (!WRONG) __syncwarp();
    }
    if (lane == 0) out[thread_number() / 32] = load(own);
}

template <bool WRONG> __global__ void same_place(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[THREADS];
    uint32_t value = in[thread_number()];
    store(tile + (WRONG ? threadIdx.x / 2 : threadIdx.x), value); // at: same_place
    __syncthreads();
    out[thread_number()] = load(tile + threadIdx.x);
}

// Alignment.

template <bool WRONG> __global__ void odd_halves(const uint32_t *in, uint32_t *out) {
    const char *from = (const char *)(in + thread_number()) + 2 * WRONG;
    uint32_t value;
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(from)); // at: odd_halves
    out[thread_number()] = value;
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

// A kernel that reads a buffer and writes another.
#define PLAIN(kernel, defect)                                                                            \
    add(#kernel, defect, [](bool wrong) {                                                                \
        Words in(#kernel ".in", COUNT), out(#kernel ".out", COUNT);                                      \
        LAUNCH(kernel, in, out);                                                                         \
        return at(in, 0);                                                                                \
    })

std::vector<Case> cases() {
    std::vector<Case> all;
    auto add = [&](const char *name, const char *defect, std::function<Place(bool)> run) { all.push_back({name, defect, run}); };
    add("image_blur", "out_of_bounds", [](bool wrong) {
        Words in("image_blur.in", COUNT), out("image_blur.out", COUNT);
        LAUNCH(image_blur, in, out, BLOCKS, THREADS);
        return at(in, COUNT);
    });
    add("strided_fill", "out_of_bounds", [](bool wrong) {
        Words out("strided_fill.out", 3 * COUNT);
        LAUNCH(strided_fill, out, 3 * COUNT);
        return at(out, 3 * COUNT);
    });
    add("scatter_index", "out_of_bounds", [](bool wrong) {
        Words index("scatter_index.index", COUNT), out("scatter_index.out", COUNT - 1), behind("scatter_index.behind", COUNT);
        std::vector<uint32_t> values = made(COUNT, [](uint32_t i) { return i ? i : 1; });
        CHECK(cudaMemcpy(index, values.data(), index.bytes, cudaMemcpyHostToDevice));
        LAUNCH(scatter_index, index, out);
        return at(out, COUNT - 1);
    });
    add("particle_step", "out_of_bounds", [](bool wrong) {
        Words particles("particle_step.particles", 3 * (COUNT - 6));
        LAUNCH(particle_step, (Particle *)particles.data, COUNT - 6);
        return at(particles, 3 * (COUNT - 6) + 2);
    });
    add("stream_freed", "use_after_free", [](bool wrong) {
        uint32_t *in;
        Words out("stream_freed.out", COUNT);
        cudaStream_t stream;
        CHECK(cudaStreamCreate(&stream));
        CHECK(cudaMallocAsync(&in, COUNT * 4, stream));
        CHECK(cudaMemsetAsync(in, 1, COUNT * 4, stream));
        if (wrong) CHECK(cudaFreeAsync(in, stream));
        stream_freed<<<BLOCKS, THREADS, 0, stream>>>(in, out);
        if (!wrong) CHECK(cudaFreeAsync(in, stream));
        CHECK(cudaStreamSynchronize(stream));
        return Place{"stream_freed.in", in, COUNT * 4, 0};
    });
    add("list_walk", "use_after_free", [](bool wrong) {
        Words a("list_walk.a", 5000), b("list_walk.b", 5000), out("list_walk.out", COUNT);
        uint32_t *rows[BLOCKS] = {a, b, a, b}, **list;
        CHECK(cudaMalloc(&list, sizeof(rows)));
        CHECK(cudaMemcpy(list, rows, sizeof(rows), cudaMemcpyHostToDevice));
        if (wrong) CHECK(cudaFree(b));
        list_walk<<<BLOCKS, THREADS>>>(list, out);
        return at(b, 0);
    });
    add("pitched_sum", "uninitialized_read", [](bool wrong) {
        uint32_t *in;
        size_t pitch;
        Words out("pitched_sum.out", COUNT);
        std::vector<uint32_t> host(100 * BLOCKS, 1);
        CHECK(cudaMallocPitch(&in, &pitch, 100 * 4, BLOCKS));
        CHECK(cudaMemcpy2D(in, pitch, host.data(), 400, 400, BLOCKS, cudaMemcpyHostToDevice));
        pitched_sum<<<BLOCKS, THREADS>>>(in, out, pitch, wrong ? 101 : 100);
        return Place{"pitched_sum.in", in, pitch * BLOCKS, 100};
    });
    add("odd_read", "uninitialized_read", [](bool wrong) {
        Words in("odd_read.in", 2 * COUNT, false), out("odd_read.out", COUNT);
        LAUNCH(even_set, in);
        odd_read<<<BLOCKS, THREADS>>>(in, out);
        return at(in, 1);
    });
    add("copied_part", "uninitialized_read", [](bool wrong) {
        Words source("copied_part.source", COUNT), in("copied_part.in", COUNT, false), out("copied_part.out", COUNT);
        CHECK(cudaMemcpy(in, source, COUNT * (wrong ? 3 : 4), cudaMemcpyDeviceToDevice));
        copied_part<<<BLOCKS, THREADS>>>(in, out);
        return at(in, COUNT / 4 * 3);
    });
    add("last_flag", "block_race", [](bool wrong) {
        Words in("last_flag.in", COUNT), found("last_flag.found", BLOCKS);
        LAUNCH(last_flag, in, found);
        return at(found, 0);
    });
    add("halo_write", "block_race", [](bool wrong) {
        Words out("halo_write.out", COUNT);
        LAUNCH(halo_write, out);
        return at(out, THREADS - 1);
    });
    add("prefix_carry", "block_race", [](bool wrong) {
        Words data("prefix_carry.data", COUNT);
        LAUNCH(prefix_carry, data);
        return at(data, THREADS - 1);
    });
    add("ring_copy", "shared_race", [](bool wrong) {
        Words in("ring_copy.in", COUNT), out("ring_copy.out", COUNT);
        LAUNCH(ring_copy, in, out, 4);
        return at(in, 0);
    });
    PLAIN(early_use, "shared_race");
    PLAIN(weak_wait, "shared_race");
    PLAIN(unsynced_copy, "shared_race");
    PLAIN(bulk_early, "shared_race");
    PLAIN(lane_reverse, "shared_race");
    PLAIN(warp_sum, "shared_race");
    PLAIN(same_place, "shared_race");
    add("moved_rows", "overlapping_copy", [](bool wrong) {
        Words words("moved_rows.words", 2048);
        CHECK(cudaMemcpy2D(words.data + (wrong ? 32 : 1024), 256, words, 256, 256, 2, cudaMemcpyDeviceToDevice)); // at: moved_rows
        return at(words, 32);
    });
    add("woven_rows", "", [](bool) {
        Words words("woven_rows.words", 2048);
        // Rows of one lie in the gaps of the other.
        CHECK(cudaMemcpy2D(words.data + 32, 256, words, 256, 128, 8, cudaMemcpyDeviceToDevice));
        return at(words, 32);
    });
    add("odd_halves", "alignment_fault", [](bool wrong) {
        Words in("odd_halves.in", COUNT + 1), out("odd_halves.out", COUNT);
        LAUNCH(odd_halves, in, out);
        return at(in, 0);
    });
    return all;
}

} // namespace

void run(const Case &one, bool wrong) {
    Place place = one.run(wrong);
    cudaError_t code = cudaDeviceSynchronize();
    std::string mark = std::string("// at: ") + one.name, with = std::string("// with: ") + one.name;
    printf("{\"case\": \"%s\", \"defect\": \"%s\", \"line\": %d, \"with_line\": %d, \"buffer\": \"%s\", \"address\": %llu, \"bytes\": %zu, \"element\": %ld, \"error\": \"%s\"}\n",
           one.name, wrong ? one.defect : "", line_with(mark), line_with(with), place.buffer.c_str(), (unsigned long long)(uintptr_t)place.data,
           place.bytes, place.element, cudaGetErrorName(code));
    fflush(stdout);
}

int main(int count, char **words) {
    std::string mode = count > 1 ? words[1] : "right";
    for (const Case &one : cases()) {
        bool is_named = false;
        for (int i = 2; i < count; i++) is_named |= !strcmp(words[i], one.name);
        // A misaligned access ends the context: only when asked.
        if (count > 2 ? !is_named : !strcmp(one.name, "odd_halves")) continue;
        if (mode != "wrong") run(one, false);
        if (mode != "right") run(one, true);
    }
    return 0;
}
