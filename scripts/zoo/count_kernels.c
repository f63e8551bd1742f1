// Counts the kernels that a program really runs: the zoo's truth, independent of stallmap.
//
// The driver loads it into the program (CUDA_INJECTION64_PATH). CUPTI's activity records report every kernel, those of
// graphs one by one, and do not keep kernels from running at the same time. When the process exits, it writes
// $ZOO_COUNT_FILE.PID: lines of `COUNT<tab>NAME`, first those of `total` and `dropped` (records that CUPTI lost).
// A process that dies, or is a forked child that ends by _exit, writes nothing.
//
// CUPTI is opened at run time: a copy which the program has loaded already (PyTorch's) is used, and no second one next
// to it. Otherwise the one at $ZOO_CUPTI.
//
// Build: gcc -std=gnu11 -O2 -shared -fPIC -I... -o count_kernels.so count_kernels.c -ldl -lpthread

#define _GNU_SOURCE

#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (4u << 20)
#define NAMES 4096u

#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 KernelRecord;
#else
typedef CUpti_ActivityKernel9 KernelRecord;
#endif

struct Name {
    char *text;
    uint64_t count;
};

static struct {
    pthread_mutex_t lock;
    pid_t process;
    uint64_t total, dropped, unnamed;
    struct Name names[NAMES]; // open addressing by hash
    __typeof__(&cuptiActivityEnable) enable;
    __typeof__(&cuptiActivityRegisterCallbacks) register_callbacks;
    __typeof__(&cuptiActivityGetNextRecord) next_record;
    __typeof__(&cuptiActivityGetNumDroppedRecords) dropped_records;
    __typeof__(&cuptiActivityFlushAll) flush;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void count_name(const char *text) {
    uint64_t hash = 14695981039346656037u;
    for (const char *letter = text; *letter; letter++) hash = (hash ^ (uint8_t)*letter) * 1099511628211u;
    for (uint32_t probe = 0; probe < NAMES; probe++) {
        struct Name *name = &state.names[(hash + probe) % NAMES];
        if (!name->text) name->text = strdup(text);
        if (name->text && !strcmp(name->text, text)) {
            name->count++;
            return;
        }
    }
    state.unnamed++;
}

static void CUPTIAPI request_buffer(uint8_t **buffer, size_t *bytes, size_t *records) {
    void *memory = NULL;
    *bytes = posix_memalign(&memory, 8, BUFFER_BYTES) ? 0 : BUFFER_BYTES;
    *buffer = memory;
    *records = 0;
}

static void CUPTIAPI complete_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    (void)bytes;
    CUpti_Activity *record = NULL;
    size_t dropped = 0;
    pthread_mutex_lock(&state.lock);
    while (valid && state.next_record(buffer, valid, &record) == CUPTI_SUCCESS)
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
            const char *name = ((const KernelRecord *)record)->name;
            state.total++;
            count_name(name ? name : "(no name)");
        }
    if (state.dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) state.dropped += dropped;
    pthread_mutex_unlock(&state.lock);
    free(buffer);
}

// A forked child has the handler too, but none of the counted kernels ran in it.
static void write_counts(void) {
    const char *path = getenv("ZOO_COUNT_FILE");
    if (!path || getpid() != state.process) return;
    state.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    char own[4096];
    snprintf(own, sizeof own, "%s.%d", path, (int)getpid());
    FILE *file = fopen(own, "w");
    if (!file) return;
    pthread_mutex_lock(&state.lock);
    fprintf(file, "%llu\ttotal\n%llu\tdropped\n", (unsigned long long)state.total, (unsigned long long)state.dropped);
    for (uint32_t place = 0; place < NAMES; place++)
        if (state.names[place].text)
            fprintf(file, "%llu\t%s\n", (unsigned long long)state.names[place].count, state.names[place].text);
    if (state.unnamed) fprintf(file, "%llu\t(other names)\n", (unsigned long long)state.unnamed);
    pthread_mutex_unlock(&state.lock);
    fclose(file);
}

static void *open_cupti(void) {
    const char *loaded[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
    for (size_t index = 0; index < sizeof loaded / sizeof *loaded; index++) {
        void *library = dlopen(loaded[index], RTLD_NOW | RTLD_NOLOAD);
        if (library) return library;
    }
    const char *path = getenv("ZOO_CUPTI");
    return path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
}

static int find_functions(void *library) {
    state.enable = (__typeof__(state.enable))dlsym(library, "cuptiActivityEnable");
    state.register_callbacks = (__typeof__(state.register_callbacks))dlsym(library, "cuptiActivityRegisterCallbacks");
    state.next_record = (__typeof__(state.next_record))dlsym(library, "cuptiActivityGetNextRecord");
    state.dropped_records = (__typeof__(state.dropped_records))dlsym(library, "cuptiActivityGetNumDroppedRecords");
    state.flush = (__typeof__(state.flush))dlsym(library, "cuptiActivityFlushAll");
    return state.enable && state.register_callbacks && state.next_record && state.dropped_records && state.flush;
}

// The driver calls it when the program starts CUDA. The program goes on uncounted where anything fails.
__attribute__((visibility("default"))) int InitializeInjection(void) {
    void *library = open_cupti();
    if (!library || !find_functions(library)) {
        fprintf(stderr, "count_kernels: no CUPTI: %s\n", dlerror());
        return 1;
    }
    CUptiResult result = state.register_callbacks(request_buffer, complete_buffer);
    if (result == CUPTI_SUCCESS) result = state.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    if (result != CUPTI_SUCCESS) {
        fprintf(stderr, "count_kernels: CUPTI error %d\n", (int)result);
        return 1;
    }
    state.process = getpid();
    atexit(write_counts);
    return 1;
}
