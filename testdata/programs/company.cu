// Programs that are not alone on the GPU, and kernels that do not run alone.
//
//     company host          a kernel that waits, for up to 20 s, for a number from the host, set when its launch has returned
//     company stream        a kernel that waits for one that is launched behind it on another stream
//     company turns COUNT   COUNT kernels of about 1 ms with pauses: several of these at once share the GPU
//
// Prints one line with what was computed: the same in every run.

#include "truth.h"

#include <unistd.h>

constexpr uint64_t PATIENCE_NS = 20000000000;

__device__ uint64_t now_ns() {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

__global__ void wait_for_number(volatile uint32_t *number, volatile uint32_t *answer) {
    uint64_t begin = now_ns();
    while (*number == 0 && now_ns() - begin < PATIENCE_NS) {}
    *answer = *number;
}

__global__ void set_number(volatile uint32_t *number) { *number = 42; }

__global__ void spin(long long cycles, uint32_t *total) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {}
    if (threadIdx.x == 0) *total += 1;
}

static void waits(bool is_for_host) {
    uint32_t *shared;
    CHECK(cudaHostAlloc((void **)&shared, 256, cudaHostAllocMapped));
    shared[0] = shared[32] = 0;
    cudaStream_t streams[2];
    for (cudaStream_t &stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    // CUDA loads a kernel at its first launch, and waits for the GPU first.
    cudaFuncAttributes loaded;
    CHECK(cudaFuncGetAttributes(&loaded, set_number));
    wait_for_number<<<1, 1, 0, streams[0]>>>(shared, shared + 32);
    if (is_for_host) *(volatile uint32_t *)shared = 42;
    else set_number<<<1, 1, 0, streams[1]>>>(shared);
    CHECK(cudaDeviceSynchronize());
    printf("answer %u\n", shared[32]);
}

static void turns(int count) {
    uint32_t *total, result = 0;
    CHECK(cudaMalloc((void **)&total, sizeof *total));
    CHECK(cudaMemset(total, 0, sizeof *total));
    for (int number = 0; number < count; number++) {
        spin<<<1, 32>>>(1500000, total);
        CHECK(cudaDeviceSynchronize());
        usleep(2000);
    }
    CHECK(cudaMemcpy(&result, total, sizeof result, cudaMemcpyDeviceToHost));
    printf("turns %u\n", result);
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    if (!strcmp(mode, "host") || !strcmp(mode, "stream")) return waits(mode[0] == 'h'), 0;
    if (!strcmp(mode, "turns") && count > 2) return turns(atoi(words[2])), 0;
    fprintf(stderr, "usage: company host | stream | turns COUNT\n");
    return 2;
}
