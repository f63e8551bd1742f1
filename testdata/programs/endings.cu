// Ways for a program to end, and launches that come late: from destructors of a thread's variables and of statics, from a
// handler of the exit, from a thread that outlives `main`, after a reset of the device, around a fork without exec.
//
//     endings destructors | threads | reset | fork | leave | SIGNAL | at_once | quick
//
// `at_once` and `quick` end by `_exit` and `quick_exit` behind 200 launches that are not waited for.
// `leave` and signals end the process 400 ms after the last kernel has ended. One line for each value that was computed.

#include "truth.h"

#include <atomic>
#include <csignal>
#include <thread>
#include <unistd.h>
#include <sys/wait.h>

__global__ void add(uint32_t *cell, uint32_t value) { atomicAdd(cell, value); }

static uint32_t *cells;

static void say(const char *name, int cell) {
    uint32_t value = 0;
    cudaError_t error = cudaMemcpy(&value, cells + cell, sizeof value, cudaMemcpyDeviceToHost);
    printf("%s %d %u\n", name, (int)error, value);
    fflush(stdout);
}

static void launch(int cell, int count = 1) {
    for (int number = 0; number < count; number++) add<<<1, 32, 0, cudaStreamPerThread>>>(cells + cell, 1);
}

// Launches when it goes.
struct Last {
    const char *name;
    int cell;
    ~Last() {
        launch(cell);
        cudaStreamSynchronize(cudaStreamPerThread);
        say(name, cell);
    }
};

static void begin() {
    CHECK(cudaMalloc(&cells, 1024));
    CHECK(cudaMemset(cells, 0, 1024));
}

static void thread_with_destructor() {
    // Older than whatever the first launch makes for this thread, so it goes later.
    thread_local Last last{"thread", 0};
    launch(last.cell, 3);
}

static int destructors() {
    static Last early{"early", 1};
    begin();
    static Last late{"late", 2};
    atexit([] {
        launch(3);
        say("handler", 3);
    });
    std::thread(thread_with_destructor).join();
    launch(4);
    return 5;
}

static std::atomic<int> late{0};

static int threads() {
    begin();
    // It launches until a handler of the exit has seen it launch, and ends before CUDA does.
    std::thread([] {
        for (; late < 100; late += late > 0) {
            launch(0);
            cudaStreamSynchronize(cudaStreamPerThread);
        }
        late = -1;
    }).detach();
    atexit([] {
        for (late = 1; late > 0;) std::this_thread::yield();
        printf("the late thread has ended\n");
        fflush(stdout);
    });
    std::vector<std::thread> short_lived;
    for (int thread = 0; thread < 64; thread++) short_lived.emplace_back([] { launch(1); });
    for (std::thread &thread : short_lived) thread.join();
    CHECK(cudaDeviceSynchronize());
    say("threads", 1);
    return 6;
}

static int reset() {
    for (int round = 0; round < 3; round++) {
        begin();
        launch(0, 10);
        CHECK(cudaDeviceSynchronize());
        say("round", 0);
        launch(1, 2);  // not waited for
        CHECK(cudaDeviceReset());
    }
    return 7;
}

static int forks() {
    begin();
    launch(0, 10);
    for (int child = 0; child < 2; child++) {
        fflush(stdout);
        pid_t process = fork();
        if (process == 0) {
            printf("child %d\n", child);
            if (child == 0) exit(9);
            fflush(stdout);
            _exit(9);
        }
        int status = 0;
        waitpid(process, &status, 0);
        printf("child ended with %d\n", WEXITSTATUS(status));
        launch(0, 10);
    }
    CHECK(cudaDeviceSynchronize());
    say("parent", 0);
    return 8;
}

// Launches kernels, and ends by a function that runs no handler of an exit.
static void end_at_once(bool is_quick) {
    begin();
    launch(0, 200);
    printf("ends\n");
    fflush(stdout);
    is_quick ? quick_exit(4) : _exit(4);
}

// Launches 100 kernels, and more that are waited for one by one. Ends long after the last.
static void end_by(int number) {
    begin();
    launch(0, 100);
    CHECK(cudaDeviceSynchronize());
    for (int round = 0; round < 50; round++) {
        launch(1);
        usleep(2000);
    }
    CHECK(cudaDeviceSynchronize());
    launch(2, 50);  // not waited for
    usleep(400000);
    printf("ends\n");
    fflush(stdout);
    if (number == 0) _exit(4);
    kill(getpid(), number);
    pause();
}

int main(int count, char **words) {
    std::string how = count == 2 ? words[1] : "destructors";
    if (how == "destructors") return destructors();
    if (how == "threads") return threads();
    if (how == "reset") return reset();
    if (how == "fork") return forks();
    if (how == "at_once" || how == "quick") end_at_once(how == "quick");
    if (how == "leave") end_by(0);
    end_by(atoi(how.c_str()));
}
