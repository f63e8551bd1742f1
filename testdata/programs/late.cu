// Launches that go wrong when they are replayed: they look at the clock. Until --seconds after the program's start they
// do nothing but add. Later, `faults` reads address 8 and `hangs` never ends. `adds` is always right.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

typedef unsigned long long u64;

__device__ bool is_late(u64 deadline_ns) {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now > deadline_ns;
}

__global__ void adds(int *sum) { atomicAdd(sum, 1); }

__global__ void faults(int *sum, u64 deadline_ns) {
    const volatile int *from = is_late(deadline_ns) ? (const volatile int *)8 : sum;
    atomicAdd(sum, *from >= 0);
}

__global__ void hangs(int *sum, u64 deadline_ns) {
    while (is_late(deadline_ns)) {}
    atomicAdd(sum, 1);
}

int main(int count, char **words) {
    double seconds = count == 3 && !strcmp(words[1], "--seconds") ? atof(words[2]) : 10;
    auto now = std::chrono::system_clock::now().time_since_epoch();
    u64 deadline_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() + (u64)(seconds * 1e9);
    int *sum, result = 0;
    cudaMalloc(&sum, sizeof *sum);
    cudaMemset(sum, 0, sizeof *sum);
    adds<<<1, 32>>>(sum);
    faults<<<1, 32>>>(sum, deadline_ns);
    adds<<<2, 32>>>(sum);
    hangs<<<1, 32>>>(sum, deadline_ns);
    adds<<<3, 32>>>(sum);
    if (cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
    printf("{\"sum\": %d, \"right\": %s}\n", result, result == 256 ? "true" : "false");
    return result != 256;
}
