// What programs of known truth share: buffers with names, launches, checks of results, and one JSON fact a kernel.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define CHECK(call)                                                                                      \
    do {                                                                                                 \
        cudaError_t code = (call);                                                                       \
        if (code != cudaSuccess) {                                                                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(code));     \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

// A permutation of 2^bits numbers in one cycle (Hull and Dobell): multiplier 1 modulo 4, odd increment.
__host__ __device__ inline uint32_t link(uint32_t index, uint32_t mask) { return (index * 1664525u + 1013904223u) & mask; }

// Spreads consecutive numbers over all bits.
__host__ __device__ inline uint32_t scatter(uint32_t value) {
    value = (value ^ (value >> 16)) * 0x7feb352du;
    value = (value ^ (value >> 15)) * 0x846ca68bu;
    return value ^ (value >> 16);
}

// A device buffer with a name, filled from the host: no extra kernel runs.
struct Buffer {
    std::string name;
    uint32_t *data = nullptr;
    size_t bytes = 0;
    Buffer(std::string name, const std::vector<uint32_t> &values) : name(name), bytes(values.size() * 4) {
        CHECK(cudaMalloc(&data, bytes));
        CHECK(cudaMemcpy(data, values.data(), bytes, cudaMemcpyHostToDevice));
    }
    std::vector<uint32_t> read() const {
        std::vector<uint32_t> values(bytes / 4);
        CHECK(cudaMemcpy(values.data(), data, bytes, cudaMemcpyDeviceToHost));
        return values;
    }
};

// What a buffer's part of a kernel's stalls must be.
struct Share {
    const char *buffer;
    double low, high;
};

struct Kernel {
    const char *name;
    uint64_t reads, writes, atomics; // by lanes, of one launch
    const char *reason;              // the stalls that the shares are of
    std::vector<Share> shares;
    const char *why;
    std::function<void(uint32_t first)> launch;          // `first`: what its first warp begins with
    std::function<uint32_t(uint32_t thread)> result; // counted from warp 0, not from `first`
};

static std::vector<uint32_t> made(size_t count, std::function<uint32_t(uint32_t)> value) {
    std::vector<uint32_t> values(count);
    for (size_t index = 0; index < count; index++) values[index] = value((uint32_t)index);
    return values;
}

static bool equal(const Buffer &buffer, std::function<uint32_t(uint32_t)> value) {
    std::vector<uint32_t> values = buffer.read();
    for (size_t index = 0; index < values.size(); index++)
        if (values[index] != value((uint32_t)index)) return false;
    return true;
}

static void print_buffers(const std::vector<const Buffer *> &buffers) {
    printf("\"buffers\": {");
    const char *separator = "";
    for (const Buffer *buffer : buffers) {
        printf("%s\"%s\": {\"address\": %llu, \"bytes\": %zu}", separator, buffer->name.c_str(),
               (unsigned long long)(uintptr_t)buffer->data, buffer->bytes);
        separator = ", ";
    }
    printf("}");
}

static void print_shares(const Kernel &kernel) {
    printf("\"reason\": \"%s\", \"shares\": {", kernel.reason);
    const char *separator = "";
    for (const Share &share : kernel.shares) {
        printf("%s\"%s\": [%g, %g]", separator, share.buffer, share.low, share.high);
        separator = ", ";
    }
    printf("}, \"why\": \"%s\"", kernel.why);
}
