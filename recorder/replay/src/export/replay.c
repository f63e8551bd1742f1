/* Runs one recorded launch: at the addresses that it had, with the memory that it read, and compares what it wrote.
 *
 *   cc -O2 replay.c -o replay -I/usr/local/cuda/include -L/usr/local/cuda/lib64/stubs -lcuda
 *   ./replay [REPEATS]
 *
 * The same folder has kernel.cubin, launch.h (the launch), pages.bin and contents.bin (its memory). It needs a GPU of
 * the architecture that the cubin is for. Exit code 0: every replay wrote what was recorded. 1: some did not, as sums
 * by atomics may, whose order differs. 2: it could not be run. Written by stallmap-record. Change it as you like.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

/* BLAKE3 of one page: four chunks of 16 blocks, two parents, the root. Constants and flags are its specification's. */
enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };
static const uint32_t IV[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
static const uint8_t ORDER[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void mix(uint32_t *v, int a, int b, int c, int d, uint32_t x, uint32_t y) {
    v[a] += v[b] + x; v[d] = rotate(v[d] ^ v[a], 16);
    v[c] += v[d];     v[b] = rotate(v[b] ^ v[c], 12);
    v[a] += v[b] + y; v[d] = rotate(v[d] ^ v[a], 8);
    v[c] += v[d];     v[b] = rotate(v[b] ^ v[c], 7);
}

static void compress(uint32_t value[8], const void *block, uint32_t counter, uint32_t flags) {
    uint32_t m[16], next[16], v[16];
    memcpy(m, block, 64);
    memcpy(v, value, 32);
    memcpy(v + 8, IV, 16);
    v[12] = counter; v[13] = 0; v[14] = 64; v[15] = flags;
    for (int round = 0; round < 7; round++) {
        for (int i = 0; i < 4; i++) mix(v, i, 4 + i, 8 + i, 12 + i, m[2 * i], m[2 * i + 1]);
        for (int i = 0; i < 4; i++) mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[8 + 2 * i], m[9 + 2 * i]);
        for (int i = 0; i < 16; i++) next[i] = m[ORDER[i]];
        memcpy(m, next, 64);
    }
    for (int i = 0; i < 8; i++) value[i] = v[i] ^ v[i + 8];
}

static uint64_t hash_page(const uint8_t *page) {
    uint32_t chunks[4][8], parents[2][8], root[8];
    for (uint32_t chunk = 0; chunk < 4; chunk++) {
        memcpy(chunks[chunk], IV, 32);
        for (int block = 0; block < 16; block++) {
            uint32_t flags = (block == 0 ? CHUNK_START : 0) | (block == 15 ? CHUNK_END : 0);
            compress(chunks[chunk], page + 1024 * chunk + 64 * block, chunk, flags);
        }
    }
    for (int i = 0; i < 2; i++) { memcpy(parents[i], IV, 32); compress(parents[i], chunks[2 * i], 0, PARENT); }
    memcpy(root, IV, 32);
    compress(root, parents, 0, PARENT | ROOT);
    return (uint64_t)root[1] << 32 | root[0];
}

#ifdef HASH_ONLY
int main(void) {
    uint8_t page[PAGE];
    while (fread(page, PAGE, 1, stdin) == 1) printf("%016llx\n", (unsigned long long)hash_page(page));
    return 0;
}
#else
#include <cuda.h>

#include "launch.h"

typedef struct { uint64_t address, content, is_written, hash_after; } Page;

static void check(CUresult result, const char *what) {
    const char *name = "unknown error";
    if (result == CUDA_SUCCESS) return;
    cuGetErrorName(result, &name);
    fprintf(stderr, "replay: %s: %s\n", what, name);
    exit(2);
}

static void *read_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) { fprintf(stderr, "replay: cannot open %s\n", path); exit(2); }
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*bytes + 1);
    if (!data || fread(data, 1, *bytes, file) != *bytes) { fprintf(stderr, "replay: cannot read %s\n", path); exit(2); }
    fclose(file);
    return data;
}

static Page *pages;
static size_t page_count;
static uint8_t *contents;

/* Reserves and maps what the pages lie in: spans of at least a GiB, aligned to 32 MiB, because only for such does the
 * driver honour the address. */
static void place_memory(void) {
    const uint64_t granule = 2ull << 20, alignment = 32ull << 20, least = 1ull << 30;
    uint64_t begin = 0, end = 0, mapped = 0;
    for (size_t i = 0; i < page_count;) {
        size_t j = i;
        begin = pages[i].address / alignment * alignment;
        end = begin + least;
        while (j < page_count && pages[j].address / alignment * alignment <= end) {
            uint64_t needed = (pages[j].address / granule + 1) * granule;
            if (needed > end) end = (needed + alignment - 1) / alignment * alignment;
            j++;
        }
        CUdeviceptr address = 0;
        check(cuMemAddressReserve(&address, end - begin, 0, begin, 0), "reserve addresses");
        if (address != begin) {
            fprintf(stderr, "replay: the addresses from %#llx on are taken in this process: run it again\n", (unsigned long long)begin);
            exit(2);
        }
        for (; i < j; i++) {
            uint64_t at = pages[i].address / granule * granule;
            if (at == mapped) continue;
            CUmemGenericAllocationHandle memory;
            CUmemAllocationProp properties = {0};
            properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
            properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            CUmemAccessDesc access = {0};
            access.location = properties.location;
            access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            check(cuMemCreate(&memory, granule, &properties, 0), "make memory");
            check(cuMemMap(at, granule, 0, memory, 0), "map memory");
            check(cuMemSetAccess(at, granule, &access, 1), "allow access to memory");
            mapped = at;
        }
    }
}

static void fill_memory(CUmodule module) {
    for (size_t i = 0; i < page_count; i++)
        check(cuMemcpyHtoD(pages[i].address, contents + pages[i].content * PAGE, PAGE), "fill memory");
    for (size_t i = 0; i < SYMBOL_COUNT; i++) {
        CUdeviceptr address;
        size_t bytes;
        check(cuModuleGetGlobal(&address, &bytes, module, SYMBOLS[i].name), SYMBOLS[i].name);
        check(cuMemcpyHtoD(address + SYMBOLS[i].offset, contents + SYMBOLS[i].content * PAGE, SYMBOLS[i].bytes), SYMBOLS[i].name);
    }
}

/* Pages, and parts of variables, that are not what they were after the launch. */
static size_t compare_memory(CUmodule module) {
    size_t different = 0;
    uint8_t page[PAGE];
    for (size_t i = 0; i < page_count; i++) {
        if (!pages[i].is_written) continue;
        check(cuMemcpyDtoH(page, pages[i].address, PAGE), "read memory");
        different += hash_page(page) != pages[i].hash_after;
    }
    for (size_t i = 0; i < SYMBOL_COUNT; i++) {
        CUdeviceptr address;
        size_t bytes;
        if (!SYMBOLS[i].is_written) continue;
        memset(page, 0, PAGE);
        check(cuModuleGetGlobal(&address, &bytes, module, SYMBOLS[i].name), SYMBOLS[i].name);
        check(cuMemcpyDtoH(page, address + SYMBOLS[i].offset, SYMBOLS[i].bytes), "read a variable");
        different += hash_page(page) != SYMBOLS[i].hash_after;
    }
    return different;
}

int main(int argument_count, char **arguments) {
    int repeats = argument_count > 1 ? atoi(arguments[1]) : 3, worst = 0;
    size_t bytes, cubin_bytes;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUevent first, last;
    void *cubin = read_file("kernel.cubin", &cubin_bytes);
    pages = read_file("pages.bin", &bytes);
    page_count = bytes / sizeof(Page);
    contents = read_file("contents.bin", &bytes);
    check(cuInit(0), "initialize the driver");
    check(cuDeviceGet(&device, 0), "find a GPU");
    check(cuDevicePrimaryCtxRetain(&context, device), "make a context");
    check(cuCtxSetCurrent(context), "enter the context");
    place_memory();
    check(cuModuleLoadData(&module, cubin), "load kernel.cubin");
    check(cuModuleGetFunction(&function, module, KERNEL), KERNEL);
    cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, MAX_DYNAMIC_SHARED_BYTES);
    cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    if (SHARED_CARVEOUT >= 0) cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, SHARED_CARVEOUT);
    check(cuEventCreate(&first, 0), "make an event");
    check(cuEventCreate(&last, 0), "make an event");
    for (int repeat = 0; repeat < repeats; repeat++) {
        size_t parameter_bytes = PARAMETER_BYTES;
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)PARAMETERS, CU_LAUNCH_PARAM_BUFFER_SIZE, &parameter_bytes, CU_LAUNCH_PARAM_END};
        CUlaunchConfig config = {0};
        config.gridDimX = GRID_X; config.gridDimY = GRID_Y; config.gridDimZ = GRID_Z;
        config.blockDimX = BLOCK_X; config.blockDimY = BLOCK_Y; config.blockDimZ = BLOCK_Z;
        config.sharedMemBytes = DYNAMIC_SHARED_BYTES;
        config.attrs = (CUlaunchAttribute *)ATTRIBUTES;
        config.numAttrs = ATTRIBUTE_COUNT;
        float milliseconds = 0;
        fill_memory(module);
        check(cuEventRecord(first, 0), "record an event");
        check(cuLaunchKernelEx(&config, function, NULL, PARAMETER_BYTES ? extra : NULL), "launch the kernel");
        check(cuEventRecord(last, 0), "record an event");
        check(cuCtxSynchronize(), "run the kernel");
        check(cuEventElapsedTime(&milliseconds, first, last), "measure the time");
        size_t different = compare_memory(module);
        worst |= different > 0;
        printf("replay %d: %.1f us, %zu written pages differ from the recorded ones\n", repeat + 1, milliseconds * 1e3, different);
    }
    return worst;
}
#endif
