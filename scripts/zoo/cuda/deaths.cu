// Programs that end otherwise than by returning from main, after 20 launches that worked.
//
//   os_exit          _exit(3): no handler runs
//   abort            abort()
//   sigkill          kills itself: nothing of it can run any more
//   segv             writes to address 0
//   illegal_address  a kernel writes to unmapped memory. Prints that and exits with 7
//   refused          launches that the driver must refuse, between launches that work. Exits with 0. 23 kernels run

#include <csignal>
#include <unistd.h>

#include "zoo.h"

constexpr uint32_t COUNT = 1 << 12;

__global__ void add(uint32_t *data, uint32_t value) { data[thread_index()] += value; }

__global__ void write_to(uint32_t *data) { data[thread_index()] = 1; }

static uint32_t *work() {
    uint32_t *data = device_memory(COUNT, 0);
    for (int launch = 0; launch < 20; launch++) add<<<COUNT / BLOCK, BLOCK>>>(data, 2);
    CHECK(cudaGetLastError());
    check("20 launches", host_copy(data, COUNT), [](uint32_t) { return 40; });
    return data;
}

static int os_exit(const char *) {
    work();
    _exit(3);
}

static int abort_at_once(const char *) {
    work();
    abort();
}

static int sigkill(const char *) {
    work();
    kill(getpid(), SIGKILL);
    pause();
    return 1;
}

static int segv(const char *) {
    work();
    // The compiler must not know the address: it would put another instruction in place of the store.
    volatile uintptr_t nowhere = 0;
    *(volatile uint32_t *)nowhere = 1;
    return 1;
}

static int illegal_address(const char *) {
    work();
    write_to<<<1, 32>>>((uint32_t *)16);
    cudaError_t code = cudaDeviceSynchronize();
    say("after the wild write: %s", cudaGetErrorName(code));
    return code == cudaErrorIllegalAddress ? 7 : 1;
}

static int refused(const char *) {
    uint32_t *data = work();
    add<<<1, 4096>>>(data, 1);
    say("4,096 threads in a block: %s", cudaGetErrorName(cudaGetLastError()));
    add<<<COUNT / BLOCK, BLOCK>>>(data, 1);
    say("a launch after it: %s", cudaGetErrorName(cudaGetLastError()));
    add<<<0, BLOCK>>>(data, 1);
    say("no blocks: %s", cudaGetErrorName(cudaGetLastError()));
    add<<<COUNT / BLOCK, BLOCK>>>(data, 1);
    say("a launch after it: %s", cudaGetErrorName(cudaGetLastError()));
    add<<<1, BLOCK, 1 << 20>>>(data, 1);
    say("a MiB of shared memory: %s", cudaGetErrorName(cudaGetLastError()));
    add<<<COUNT / BLOCK, BLOCK>>>(data, 1);
    say("a launch after it: %s", cudaGetErrorName(cudaGetLastError()));
    CHECK(cudaDeviceSynchronize());
    check("launches that worked", host_copy(data, COUNT), [](uint32_t) { return 43; });
    return 0;
}

int main(int count, char **words) {
    return run_mode(count, words,
                    {{"os_exit", os_exit},
                     {"abort", abort_at_once},
                     {"sigkill", sigkill},
                     {"segv", segv},
                     {"illegal_address", illegal_address},
                     {"refused", refused}});
}
