// Work of known duration: kernels that run until so many nanoseconds of the GPU's clock have passed, alone, side by side
// on two streams, as nodes of a graph, and after a pause of the host. Copies and a fill of known size are between them.
//
// One JSON line for each piece of work, in the order of the calls.

#include "truth.h"

#include <unistd.h>

typedef unsigned long long u64;

__device__ u64 clock_ns() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__device__ void spin(u64 duration_ns, u64 *spent_ns) {
    u64 begin = clock_ns(), end = begin;
    while (end < begin + duration_ns) end = clock_ns();
    spent_ns[blockIdx.x] = end - begin;
}

__global__ void spin_first(u64 duration_ns, u64 *spent_ns) { spin(duration_ns, spent_ns); }
__global__ void spin_second(u64 duration_ns, u64 *spent_ns) { spin(duration_ns, spent_ns); }

static const size_t COPY_BYTES = 64 << 20;

static void say(const char *work, const char *stream, u64 ns, u64 bytes) {
    printf("{\"work\": \"%s\", \"stream\": \"%s\", \"ns\": %llu, \"bytes\": %llu}\n", work, stream, ns, bytes);
}

int main() {
    u64 *spent;
    char *host, *device, *other;
    cudaStream_t first, second;
    cudaEvent_t done;
    CHECK(cudaMalloc(&spent, 1024 * sizeof *spent));
    CHECK(cudaMallocHost(&host, COPY_BYTES));
    CHECK(cudaMalloc(&device, COPY_BYTES));
    CHECK(cudaMalloc(&other, COPY_BYTES));
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));

    // Alone, each longer than the one before. Grids of one block, of eight, of more than a GPU holds at once.
    for (u64 ns : {100000ull, 1000000ull, 5000000ull}) {
        spin_first<<<1, 32, 0, first>>>(ns, spent);
        say("spin_first", "first", ns, 0);
    }
    spin_second<<<8, 128, 0, first>>>(2000000, spent);
    say("spin_second", "first", 2000000, 0);
    CHECK(cudaStreamSynchronize(first));

    // Side by side, with a copy behind each.
    spin_first<<<1, 32, 0, first>>>(4000000, spent);
    spin_second<<<1, 32, 0, second>>>(4000000, spent + 64);
    say("spin_first", "first", 4000000, 0);
    say("spin_second", "second", 4000000, 0);
    CHECK(cudaMemcpyAsync(device, host, COPY_BYTES, cudaMemcpyHostToDevice, first));
    say("host_to_device", "first", 0, COPY_BYTES);
    CHECK(cudaMemcpyAsync(other, device, COPY_BYTES, cudaMemcpyDeviceToDevice, first));
    say("device_to_device", "first", 0, COPY_BYTES);
    CHECK(cudaEventRecord(done, first));
    CHECK(cudaStreamWaitEvent(second, done, 0));
    CHECK(cudaMemcpyAsync(host, other, COPY_BYTES, cudaMemcpyDeviceToHost, second));
    say("device_to_host", "second", 0, COPY_BYTES);
    CHECK(cudaMemsetAsync(device, 0, COPY_BYTES, second));
    say("fill", "second", 0, COPY_BYTES);
    CHECK(cudaDeviceSynchronize());

    // A graph of two nodes of one function, launched three times.
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    spin_first<<<1, 32, 0, first>>>(300000, spent);
    spin_first<<<1, 32, 0, first>>>(700000, spent);
    CHECK(cudaStreamEndCapture(first, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    for (int launch = 0; launch < 3; launch++) {
        CHECK(cudaGraphLaunch(exec, first));
        say("spin_first", "graph", 300000, 0);
        say("spin_first", "graph", 700000, 0);
    }
    CHECK(cudaStreamSynchronize(first));

    // The GPU waits for the host: at least 20 ms without work.
    usleep(20000);
    spin_second<<<1, 32, 0, first>>>(500000, spent);
    say("spin_second", "first", 500000, 0);
    CHECK(cudaDeviceSynchronize());
    u64 last;
    CHECK(cudaMemcpy(&last, spent, sizeof last, cudaMemcpyDeviceToHost));
    say("device_to_host", "default", 0, sizeof last);
    return last < 500000;
}
