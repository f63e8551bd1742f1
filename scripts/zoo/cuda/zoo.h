// What the zoo's CUDA programs share: a mode by name, checked calls, lines that survive the death of the process.
//
// What a program prints must be the same in every run: sums and counts, no addresses, no times.

#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <vector>

#define CHECK(call)                                                                                      \
    do {                                                                                                 \
        cudaError_t code = (call);                                                                       \
        if (code != cudaSuccess) {                                                                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(code));     \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

#define CHECK_DRIVER(call)                                                                               \
    do {                                                                                                 \
        CUresult code = (call);                                                                          \
        if (code != CUDA_SUCCESS) {                                                                      \
            fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, (int)code);              \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

// Prints a line at once: some programs are about to die.
__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    putchar('\n');
    fflush(stdout);
}

constexpr uint32_t BLOCK = 256;

static inline uint32_t blocks_for(uint32_t count) { return (count + BLOCK - 1) / BLOCK; }

__device__ static inline uint32_t thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

__device__ static inline uint64_t now_ns() {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// Device memory that is filled from the host: no kernel runs that the program does not name.
static inline uint32_t *device_memory(uint32_t count, uint32_t value) {
    std::vector<uint32_t> values(count, value);
    uint32_t *data;
    CHECK(cudaMalloc(&data, count * sizeof(uint32_t)));
    CHECK(cudaMemcpy(data, values.data(), count * sizeof(uint32_t), cudaMemcpyHostToDevice));
    return data;
}

static inline std::vector<uint32_t> host_copy(const uint32_t *data, uint32_t count) {
    std::vector<uint32_t> values(count);
    CHECK(cudaMemcpy(values.data(), data, count * sizeof(uint32_t), cudaMemcpyDefault));
    return values;
}

// Prints the sum of `values`, and whether each is what `expected` says of its index. Ends the program where one is not.
template <typename Expected>
static void check(const char *what, const std::vector<uint32_t> &values, Expected expected) {
    uint64_t sum = 0;
    for (uint32_t index = 0; index < values.size(); index++) {
        sum += values[index];
        uint32_t wanted = expected(index);
        if (values[index] != wanted) {
            say("%s: WRONG: [%u] is %u, not %u", what, index, values[index], wanted);
            exit(1);
        }
    }
    say("%s: %zu values right, sum %llu", what, values.size(), (unsigned long long)sum);
}

// What one run does, by the first argument.
struct Mode {
    const char *name;
    int (*run)(const char *argument);
};

static inline int run_mode(int count, char **words, std::initializer_list<Mode> modes) {
    for (const Mode &mode : modes)
        if (count > 1 && !strcmp(words[1], mode.name)) return mode.run(count > 2 ? words[2] : nullptr);
    fprintf(stderr, "usage: %s MODE [ARGUMENT]; modes:", words[0]);
    for (const Mode &mode : modes) fprintf(stderr, " %s", mode.name);
    fprintf(stderr, "\n");
    return 2;
}
