// Blocks whose times are known: each notes when it begins and ends, by the GPU's clock and by its multiprocessor's,
// in an array that the program prints. A recorder that notes the same times can be compared, block by block.
//
//   even         blocks that spin as long as each other, more than the GPU holds at once: waves and a tail
//   uneven       the last blocks spin eight times as long: imbalance
//   tiles        persistent: as many blocks as multiprocessors take tiles from a counter, and note the time of each
//   barriers     two phases between barriers, of which one waits for a slow warp
//   leaving      lanes of a warp return at different times: the last ones end the block
//
// block_truth [FILE]: with a file, writes the noted times, a line of JSON per launch: its kernel, its grid, and for each
// block [begin_ns, end_ns, begin_clock, end_clock, multiprocessor]. Prints one line of JSON per launch.
//
// Build: nvcc -O3 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o block_truth block_truth.cu

#include <algorithm>

#include "truth.h"

typedef unsigned long long u64;

struct Noted {
    u64 begin_ns, end_ns, begin_clock, end_clock, multiprocessor;
};

static __device__ __forceinline__ u64 now_ns() { u64 now; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory"); return now; }
static __device__ __forceinline__ u64 now_clock() { u64 now; asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) :: "memory"); return now; }
static __device__ __forceinline__ u64 own_multiprocessor() { uint32_t id; asm volatile("mov.u32 %0, %%smid;" : "=r"(id)); return id; }

// Notes are made by the first thread. The end comes behind a barrier.
struct Note {
    u64 ns, clock;
    __device__ Note() : ns(now_ns()), clock(now_clock()) {}
    __device__ void end(Noted *noted) {
        if (threadIdx.x == 0) noted[blockIdx.x] = {ns, now_ns(), clock, now_clock(), own_multiprocessor()};
    }
};

static __device__ void spin(u64 cycles) { for (u64 from = now_clock(); now_clock() - from < cycles;) {} }

extern "C" __global__ void even(Noted *noted, u64 cycles, uint32_t *) {
    Note note;
    spin(cycles);
    __syncthreads();
    note.end(noted);
}

extern "C" __global__ void uneven(Noted *noted, u64 cycles, uint32_t *) {
    Note note;
    spin(blockIdx.x + 16 >= gridDim.x ? 8 * cycles : cycles);
    __syncthreads();
    note.end(noted);
}

extern "C" __global__ void tiles(Noted *noted, u64 cycles, uint32_t *counter) {
    Note note;
    __shared__ uint32_t tile;
    for (;;) {
        if (threadIdx.x == 0) tile = atomicAdd(counter, 1u);
        __syncthreads();
        if (tile >= 1000) break;
        spin(cycles / 4 + (tile % 7) * cycles / 16);
        __syncthreads();
    }
    note.end(noted);
}

extern "C" __global__ void barriers(Noted *noted, u64 cycles, uint32_t *) {
    Note note;
    for (int step = 0; step < 8; step++) {
        if (threadIdx.x / 32 == step % 4) spin(cycles / 8);
        __syncthreads();
    }
    note.end(noted);
}

extern "C" __global__ void leaving(Noted *noted, u64 cycles, uint32_t *) {
    Note note;
    if (threadIdx.x % 32 >= 16) return;
    spin(cycles / 2);
    if (threadIdx.x % 32 >= 8) return;
    spin(cycles / 2);
    note.end(noted);
}

struct Launched {
    const char *name;
    void (*kernel)(Noted *, u64, uint32_t *);
    uint32_t grid, threads;
    u64 cycles;
};

int main(int count, char **arguments) {
    const Launched all[] = {
        {"even", even, 132 * 16 * 2 + 300, 128, 20000},
        {"uneven", uneven, 132 * 8, 256, 20000},
        {"tiles", tiles, 132, 128, 20000},
        {"barriers", barriers, 132 * 4, 128, 40000},
        {"leaving", leaving, 132 * 4, 128, 40000},
    };
    FILE *file = count > 1 ? fopen(arguments[1], "w") : nullptr;
    Noted *noted;
    uint32_t *counter;
    CHECK(cudaMalloc(&noted, sizeof(Noted) << 13));
    CHECK(cudaMalloc(&counter, 4));
    for (const Launched &launched : all) {
        CHECK(cudaMemset(counter, 0, 4));
        launched.kernel<<<launched.grid, launched.threads>>>(noted, launched.cycles, counter);
        std::vector<Noted> read(launched.grid);
        CHECK(cudaMemcpy(read.data(), noted, sizeof(Noted) * launched.grid, cudaMemcpyDeviceToHost));
        u64 longest = 0;
        for (const Noted &block : read) longest = std::max(longest, block.end_ns - block.begin_ns);
        printf("{\"kernel\": \"%s\", \"grid\": %u, \"threads\": %u, \"longest_ns\": %llu}\n", launched.name, launched.grid,
               launched.threads, longest);
        if (!file) continue;
        fprintf(file, "{\"kernel\": \"%s\", \"grid\": %u, \"blocks\": [", launched.name, launched.grid);
        for (size_t at = 0; at < read.size(); at++)
            fprintf(file, "%s[%llu,%llu,%llu,%llu,%llu]", at ? "," : "", read[at].begin_ns, read[at].end_ns,
                    read[at].begin_clock, read[at].end_clock, read[at].multiprocessor);
        fprintf(file, "]}\n");
    }
    if (file) fclose(file);
}
