// Memory of every kind, used by kernels whose results are known.
//
//   async_pool  cudaMallocAsync and cudaFreeAsync in two streams, 40 times: 80 kernels
//   managed     memory that host and device use in turn, with prefetches: 4 kernels
//   pinned      memory of the host that kernels read and write: allocated pinned, and registered: 2 kernels
//   vmm         addresses reserved, memory mapped behind them, unmapped, mapped elsewhere: 3 kernels

#include <cuda.h>

#include "zoo.h"

constexpr uint32_t COUNT = 1 << 18;

__global__ void fill(uint32_t *data, uint32_t value) { data[thread_index()] = thread_index() + value; }

__global__ void add(uint32_t *data, uint32_t value) { data[thread_index()] += value; }

__global__ void copy(const uint32_t *from, uint32_t *to) { to[thread_index()] = from[thread_index()]; }

static int async_pool(const char *) {
    cudaStream_t streams[2];
    for (cudaStream_t &stream : streams) CHECK(cudaStreamCreate(&stream));
    std::vector<uint32_t> values(COUNT);
    uint64_t sum = 0;
    for (uint32_t round = 0; round < 40; round++) {
        cudaStream_t stream = streams[round % 2];
        // Sizes differ: the pool must split and join its blocks.
        size_t bytes = COUNT * sizeof(uint32_t) * (1 + round % 3);
        uint32_t *data;
        CHECK(cudaMallocAsync(&data, bytes, stream));
        fill<<<COUNT / BLOCK, BLOCK, 0, stream>>>(data, round);
        add<<<COUNT / BLOCK, BLOCK, 0, stream>>>(data, 1);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(values.data(), data, COUNT * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(data, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (uint32_t index = 0; index < COUNT; index++) {
            if (values[index] != index + round + 1) return say("round %u: WRONG at %u", round, index), 1;
            sum += values[index];
        }
    }
    say("asynchronous allocations: sum %llu", (unsigned long long)sum);
    return 0;
}

static int managed(const char *) {
    uint32_t *data;
    CHECK(cudaMallocManaged(&data, COUNT * sizeof(uint32_t)));
    for (uint32_t index = 0; index < COUNT; index++) data[index] = 2 * index;
    cudaMemLocation device = {}, host = {};
    device.type = cudaMemLocationTypeDevice;
    host.type = cudaMemLocationTypeHost;
    for (uint32_t round = 0; round < 4; round++) {
        if (round % 2) CHECK(cudaMemPrefetchAsync(data, COUNT * sizeof(uint32_t), device, 0, nullptr));
        add<<<COUNT / BLOCK, BLOCK>>>(data, 1);
        CHECK(cudaGetLastError());
        if (round % 2) CHECK(cudaMemPrefetchAsync(data, COUNT * sizeof(uint32_t), host, 0, nullptr));
        CHECK(cudaDeviceSynchronize());
        for (uint32_t index = 0; index < COUNT; index += 1024) data[index] += 10;
    }
    std::vector<uint32_t> values(data, data + COUNT);
    check("managed memory", values, [](uint32_t index) { return 2 * index + 4 + (index % 1024 ? 0 : 40); });
    CHECK(cudaFree(data));
    return 0;
}

static int pinned(const char *) {
    uint32_t *from, *on_device, *to = device_memory(COUNT, 0);
    CHECK(cudaHostAlloc(&from, COUNT * sizeof(uint32_t), cudaHostAllocMapped));
    for (uint32_t index = 0; index < COUNT; index++) from[index] = 3 * index;
    CHECK(cudaHostGetDevicePointer(&on_device, from, 0));
    copy<<<COUNT / BLOCK, BLOCK>>>(on_device, to);
    CHECK(cudaDeviceSynchronize());
    check("pinned memory read", host_copy(to, COUNT), [](uint32_t index) { return 3 * index; });

    std::vector<uint32_t> ordinary(COUNT, 1);
    CHECK(cudaHostRegister(ordinary.data(), COUNT * sizeof(uint32_t), cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&on_device, ordinary.data(), 0));
    add<<<COUNT / BLOCK, BLOCK>>>(on_device, 4);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaHostUnregister(ordinary.data()));
    check("registered memory written", ordinary, [](uint32_t) { return 5; });
    CHECK(cudaFreeHost(from));
    return 0;
}

static int vmm(const char *) {
    CHECK(cudaFree(nullptr)); // makes the context that the driver's calls need
    CUmemAllocationProp property = {};
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t granularity, used = COUNT * sizeof(uint32_t);
    CHECK_DRIVER(cuMemGetAllocationGranularity(&granularity, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size_t bytes = (used + granularity - 1) / granularity * granularity;
    CUmemGenericAllocationHandle memory;
    CHECK_DRIVER(cuMemCreate(&memory, bytes, &property, 0));
    CUdeviceptr places;
    CHECK_DRIVER(cuMemAddressReserve(&places, 2 * bytes, 0, 0, 0));
    CUmemAccessDesc access = {};
    access.location = property.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

    // The same memory, first at one address, then at another.
    CHECK_DRIVER(cuMemMap(places, bytes, 0, memory, 0));
    CHECK_DRIVER(cuMemSetAccess(places, bytes, &access, 1));
    fill<<<COUNT / BLOCK, BLOCK>>>((uint32_t *)places, 6);
    CHECK(cudaDeviceSynchronize());
    CHECK_DRIVER(cuMemUnmap(places, bytes));
    CHECK_DRIVER(cuMemMap(places + bytes, bytes, 0, memory, 0));
    CHECK_DRIVER(cuMemSetAccess(places + bytes, bytes, &access, 1));
    uint32_t *moved = (uint32_t *)(places + bytes), *copied = device_memory(COUNT, 0);
    add<<<COUNT / BLOCK, BLOCK>>>(moved, 1);
    copy<<<COUNT / BLOCK, BLOCK>>>(moved, copied);
    CHECK(cudaDeviceSynchronize());
    check("mapped memory", host_copy(copied, COUNT), [](uint32_t index) { return index + 7; });
    CHECK_DRIVER(cuMemUnmap(places + bytes, bytes));
    CHECK_DRIVER(cuMemRelease(memory));
    CHECK_DRIVER(cuMemAddressFree(places, 2 * bytes));
    return 0;
}

int main(int count, char **words) {
    return run_mode(count, words,
                    {{"async_pool", async_pool}, {"managed", managed}, {"pinned", pinned}, {"vmm", vmm}});
}
