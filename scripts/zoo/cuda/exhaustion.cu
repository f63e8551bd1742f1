// Programs that leave no device memory to others, such as a recorder. Their number of launches is on stderr: it depends
// on the memory that there is.
//
//   memory_taken [MIB]  takes all memory but so many MiB before its first launch, then launches 20 kernels
//   memory_runs_out     allocates, and launches a kernel on each allocation, until there is none, then launches 20 kernels

#include "zoo.h"

constexpr uint32_t COUNT = 1 << 16;
constexpr size_t MIB = 1 << 20;

__global__ void add(uint32_t *data, uint32_t value) { data[thread_index()] += value; }

__global__ void fill(uint32_t *data, uint32_t value) { data[thread_index()] = value; }

static unsigned launches = 0;

// The driver loads a kernel's code when it is first named: later there may be no room for it.
static void load() {
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, add));
    CHECK(cudaFuncGetAttributes(&attributes, fill));
}

static void add_20_times(uint32_t *data, uint32_t before) {
    for (int launch = 0; launch < 20; launch++) add<<<COUNT / BLOCK, BLOCK>>>(data, 2);
    CHECK(cudaGetLastError());
    launches += 20;
    check("20 launches", host_copy(data, COUNT), [before](uint32_t) { return before + 40; });
}

static int end() {
    fprintf(stderr, "launches: %u\n", launches);
    return 0;
}

static int memory_taken(const char *argument) {
    size_t left = (argument ? strtoul(argument, nullptr, 10) : 64) * MIB;
    load();
    uint32_t *data = device_memory(COUNT, 0);
    for (size_t bytes = 1024 * MIB; bytes >= 2 * MIB; bytes /= 2) {
        size_t free_bytes, all_bytes;
        void *taken;
        CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
        while (free_bytes >= left + bytes && cudaMalloc(&taken, bytes) == cudaSuccess)
            CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
        cudaGetLastError(); // an allocation that failed is no error of the next call
    }
    say("memory is taken");
    add_20_times(data, 0);
    return end();
}

static int memory_runs_out(const char *) {
    load();
    uint32_t *data = device_memory(COUNT, 0);
    std::vector<uint32_t *> taken;
    for (size_t bytes = 256 * MIB; bytes >= 2 * MIB; bytes /= 2) {
        uint32_t *more;
        while (cudaMalloc(&more, bytes) == cudaSuccess) {
            taken.push_back(more);
            fill<<<COUNT / BLOCK, BLOCK>>>(more, (uint32_t)taken.size());
            CHECK(cudaGetLastError());
            launches++;
        }
        cudaGetLastError();
    }
    CHECK(cudaDeviceSynchronize());
    for (size_t index = 0; index < taken.size(); index++) {
        uint32_t value;
        CHECK(cudaMemcpy(&value, taken[index], sizeof value, cudaMemcpyDeviceToHost));
        if (value != index + 1) return say("allocation %zu: WRONG: %u", index, value), 1;
    }
    say("memory ran out, as it must");
    add_20_times(data, 0);
    for (uint32_t *one : taken) CHECK(cudaFree(one));
    uint32_t *more = device_memory(COUNT, 1);
    add_20_times(more, 1);
    return end();
}

int main(int count, char **words) {
    return run_mode(count, words, {{"memory_taken", memory_taken}, {"memory_runs_out", memory_runs_out}});
}
