// Long and short kernels on eight threads, each on a stream of its own: samples of a long one that are read with a short one
// would change all that a capture says of it.
//
// `chase` and `walk` wait for memory, one load after the other, for milliseconds. `walk` does it in a function. `tick_0` to
// `tick_3` add one number. One JSON line for each thread.

#include "truth.h"

#include <atomic>
#include <thread>

static const uint32_t MASK = (1 << 22) - 1;
static const int THREADS = 8;

__global__ void chase(const uint32_t *links, uint32_t *out, uint32_t steps) {
    uint32_t at = threadIdx.x;
    for (uint32_t step = 0; step < steps; step++) at = links[at];
    out[threadIdx.x] = at;
}

__device__ __noinline__ uint32_t follow(const uint32_t *links, uint32_t at, uint32_t steps) {
    for (uint32_t step = 0; step < steps; step++) at = links[at];
    return at;
}

__global__ void walk(const uint32_t *links, uint32_t *out, uint32_t steps) {
    out[threadIdx.x] = follow(links, threadIdx.x, steps);
}

__global__ void tick_0(uint32_t *out) { out[threadIdx.x] += 1; }
__global__ void tick_1(uint32_t *out) { out[threadIdx.x] += 3; }
__global__ void tick_2(uint32_t *out) { out[threadIdx.x] += 5; }
__global__ void tick_3(uint32_t *out) { out[threadIdx.x] += 7; }

static std::atomic<int> ready{0};

struct Work {
    const char *kernel;
    uint32_t launches, steps;
    std::function<void(uint32_t *out, uint32_t steps, cudaStream_t stream)> launch;
};

static void run(const Work &work, uint32_t *out) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (ready++; ready < THREADS;) std::this_thread::yield();
    for (uint32_t launch = 0; launch < work.launches; launch++) work.launch(out, work.steps, stream);
    CHECK(cudaStreamSynchronize(stream));
}

int main(int count, char **words) {
    // The fewest loads of a long kernel.
    uint32_t steps = count == 3 && !strcmp(words[1], "--steps") ? (uint32_t)atoi(words[2]) : 5000;
    Buffer links("links", made(MASK + 1, [](uint32_t index) { return link(index, MASK); }));
    Buffer out("out", std::vector<uint32_t>(THREADS * 32));
    auto chases = [&](uint32_t *out, uint32_t steps, cudaStream_t stream) {
        chase<<<1, 32, 0, stream>>>(links.data, out, steps);
    };
    auto walks = [&](uint32_t *out, uint32_t steps, cudaStream_t stream) {
        walk<<<1, 32, 0, stream>>>(links.data, out, steps);
    };
    auto ticks = [](void (*tick)(uint32_t *)) {
        return [tick](uint32_t *out, uint32_t, cudaStream_t stream) { tick<<<1, 32, 0, stream>>>(out); };
    };
    std::vector<Work> works = {
        {"chase", 40, steps, chases},       {"chase", 20, 2 * steps, chases},
        {"walk", 40, steps, walks},         {"walk", 20, 2 * steps, walks},
        {"tick_0", 200, 0, ticks(tick_0)}, {"tick_1", 200, 0, ticks(tick_1)},
        {"tick_2", 200, 0, ticks(tick_2)}, {"tick_3", 200, 0, ticks(tick_3)},
    };
    std::vector<std::thread> threads;
    for (int thread = 0; thread < THREADS; thread++)
        threads.emplace_back([&, thread] { run(works[thread], out.data + thread * 32); });
    for (std::thread &thread : threads) thread.join();
    std::vector<uint32_t> found = out.read();
    bool is_right = true;
    for (int thread = 0; thread < THREADS; thread++) {
        const Work &work = works[thread];
        uint32_t expected = thread < 4 ? 0 : (2 * (thread - 4) + 1) * work.launches;
        for (uint32_t step = 0; step < work.steps; step++) expected = link(expected, MASK);
        is_right &= found[thread * 32] == expected;
        printf("{\"thread\": %d, \"kernel\": \"%s\", \"launches\": %u, \"loads\": %llu, \"right\": %s}\n", thread,
               work.kernel, work.launches, (unsigned long long)work.launches * work.steps,
               found[thread * 32] == expected ? "true" : "false");
    }
    return is_right ? 0 : 1;
}
