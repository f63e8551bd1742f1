// Streams and host threads that run at the same time.
//
//   threads_streams       two threads, each with four streams: 51 kernels on every stream, 408 in all
//   flag_wait             a kernel waits, for up to 3 s, until a kernel launched later on another stream sets a flag.
//                         Prints `met`, or `gave up` if the second launch had to wait for the first. 5 kernels
//   capture_global        one thread captures a graph in the strict mode, in which unsafe calls of any thread end the
//                         capture, while another launches 200 kernels. Then the graph of two kernels runs 5 times:
//                         212 kernels
//   capture_thread_local  the same in the mode that watches only the capturing thread

#include <atomic>
#include <thread>

#include "zoo.h"

constexpr uint32_t COUNT = 1 << 13;
constexpr uint64_t PATIENCE_NS = 3000000000;

__global__ void add(uint32_t *data, uint32_t value) { data[thread_index()] += value; }

__global__ void times(uint32_t *data, uint32_t value) { data[thread_index()] *= value; }

__global__ void wait_for(volatile uint32_t *flag, uint32_t *has_met) {
    uint64_t begin = now_ns();
    while (*flag == 0 && now_ns() - begin < PATIENCE_NS) {}
    *has_met = *flag;
}

__global__ void set(volatile uint32_t *flag) {
    *flag = 1;
    __threadfence();
}

static cudaStream_t new_stream() {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static int threads_streams(const char *) {
    constexpr uint32_t THREADS = 2, STREAMS = 4, ROUNDS = 50;
    uint32_t *data[THREADS][STREAMS];
    for (auto &of_thread : data)
        for (uint32_t *&of_stream : of_thread) of_stream = device_memory(COUNT, 1);
    auto work = [&](uint32_t number) {
        cudaStream_t streams[STREAMS];
        for (cudaStream_t &stream : streams) stream = new_stream();
        for (uint32_t round = 0; round < ROUNDS; round++)
            for (uint32_t stream = 0; stream < STREAMS; stream++)
                add<<<COUNT / BLOCK, BLOCK, 0, streams[stream]>>>(data[number][stream], round * stream + number);
        for (uint32_t stream = 0; stream < STREAMS; stream++)
            times<<<COUNT / BLOCK, BLOCK, 0, streams[stream]>>>(data[number][stream], 3);
        CHECK(cudaGetLastError());
        for (cudaStream_t stream : streams) CHECK(cudaStreamSynchronize(stream));
    };
    std::vector<std::thread> threads;
    for (uint32_t number = 0; number < THREADS; number++) threads.emplace_back(work, number);
    for (std::thread &thread : threads) thread.join();
    for (uint32_t number = 0; number < THREADS; number++)
        for (uint32_t stream = 0; stream < STREAMS; stream++)
            check("a stream of a thread", host_copy(data[number][stream], COUNT), [=](uint32_t) {
                return (1 + ROUNDS * (ROUNDS - 1) / 2 * stream + ROUNDS * number) * 3;
            });
    return 0;
}

static int flag_wait(const char *) {
    uint32_t *flag = device_memory(1, 0), *has_met = device_memory(1, 0);
    cudaStream_t waiting = new_stream(), setting = new_stream();
    // Both kernels are loaded before one of them spins: loading may wait until the device is idle.
    set<<<1, 1, 0, setting>>>(flag);
    CHECK(cudaDeviceSynchronize());
    wait_for<<<1, 1, 0, waiting>>>(flag, has_met);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemset(flag, 0, sizeof *flag));
    CHECK(cudaMemset(has_met, 0, sizeof *has_met));
    CHECK(cudaDeviceSynchronize());

    wait_for<<<1, 1, 0, waiting>>>(flag, has_met);
    set<<<1, 1, 0, setting>>>(flag);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    say("the waiting kernel %s", host_copy(has_met, 1)[0] ? "met" : "gave up");

    // The other order needs no concurrency.
    wait_for<<<1, 1, 0, waiting>>>(flag, has_met);
    CHECK(cudaDeviceSynchronize());
    say("with the flag set before, the waiting kernel %s", host_copy(has_met, 1)[0] ? "met" : "gave up");
    return 0;
}

static int capture_while_launching(cudaStreamCaptureMode mode) {
    constexpr uint32_t LAUNCHES = 200, REPLAYS = 5;
    uint32_t *captured = device_memory(COUNT, 1), *launched = device_memory(COUNT, 0);
    // In the strict mode even the loading of a kernel could end the capture: both are loaded before.
    add<<<COUNT / BLOCK, BLOCK>>>(captured, 0);
    times<<<COUNT / BLOCK, BLOCK>>>(captured, 1);
    CHECK(cudaDeviceSynchronize());

    std::atomic<bool> is_capturing{false}, is_launched{false};
    cudaStream_t capturing_stream = new_stream(), launching_stream = new_stream();
    std::thread launching([&] {
        while (!is_capturing) std::this_thread::yield();
        for (uint32_t number = 0; number < LAUNCHES; number++)
            add<<<COUNT / BLOCK, BLOCK, 0, launching_stream>>>(launched, number);
        CHECK(cudaGetLastError());
        is_launched = true;
    });
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(capturing_stream, mode));
    add<<<COUNT / BLOCK, BLOCK, 0, capturing_stream>>>(captured, 2);
    is_capturing = true;
    while (!is_launched) std::this_thread::yield();
    times<<<COUNT / BLOCK, BLOCK, 0, capturing_stream>>>(captured, 3);
    CHECK(cudaStreamEndCapture(capturing_stream, &graph));
    launching.join();

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (uint32_t replay = 0; replay < REPLAYS; replay++) CHECK(cudaGraphLaunch(exec, capturing_stream));
    CHECK(cudaStreamSynchronize(capturing_stream));
    CHECK(cudaStreamSynchronize(launching_stream));
    check("launched meanwhile", host_copy(launched, COUNT), [](uint32_t) { return LAUNCHES * (LAUNCHES - 1) / 2; });
    check("captured", host_copy(captured, COUNT), [](uint32_t) {
        uint32_t value = 1;
        for (uint32_t replay = 0; replay < REPLAYS; replay++) value = (value + 2) * 3;
        return value;
    });
    return 0;
}

static int capture_global(const char *) { return capture_while_launching(cudaStreamCaptureModeGlobal); }

static int capture_thread_local(const char *) { return capture_while_launching(cudaStreamCaptureModeThreadLocal); }

int main(int count, char **words) {
    return run_mode(count, words,
                    {{"threads_streams", threads_streams},
                     {"flag_wait", flag_wait},
                     {"capture_global", capture_global},
                     {"capture_thread_local", capture_thread_local}});
}
