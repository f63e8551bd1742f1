// Launches of every form.
//
//   cooperative   blocks that wait for each other, by both calls for it: 2 kernels
//   cluster       blocks that read each other's shared memory, the cluster's size given at the launch: 2 kernels
//   dependent     20 pairs of kernels, the second of each started before the first has ended: 40 kernels
//   parameters    32,000 bytes of parameters, 3 kernels
//   textures      texture objects of linear memory and of an array: 2 kernels
//   constants     constant memory that the host changes between launches: 3 kernels
//   tiny_launches [N]  N launches (100,000 otherwise), every second one of an empty kernel
//   spin          five kernels that fill the device for 1, 10, 60, 200 and 500 ms

#include <cooperative_groups.h>

#include "zoo.h"

namespace cg = cooperative_groups;

constexpr uint32_t BLOCKS = 16;
constexpr uint32_t COUNT = BLOCKS * BLOCK;

__global__ void cooperates(uint32_t *data) {
    data[thread_index()] += thread_index();
    cg::this_grid().sync();
    uint32_t other = data[COUNT - 1 - thread_index()];
    cg::this_grid().sync();
    data[thread_index()] = other;
}

__global__ void clustered(uint32_t *data) {
    __shared__ uint32_t mine[BLOCK];
    cg::cluster_group cluster = cg::this_cluster();
    mine[threadIdx.x] = data[thread_index()];
    cluster.sync();
    uint32_t next = (cluster.block_rank() + 1) % cluster.num_blocks();
    data[thread_index()] = cluster.map_shared_rank(mine, next)[threadIdx.x];
    cluster.sync();
}

__global__ void first(uint32_t *data) {
    // The blocks that follow may start. What this block writes from here on is theirs to wait for.
    cudaTriggerProgrammaticLaunchCompletion();
    data[thread_index()] += 1;
}

__global__ void second(const uint32_t *data, uint32_t *sums) {
    cudaGridDependencySynchronize();
    sums[thread_index()] += data[thread_index()];
}

struct Wide {
    uint32_t values[7998];
};

__global__ void wide(const __grid_constant__ Wide values, uint32_t *data) {
    for (uint32_t index = thread_index(); index < 7998; index += COUNT) data[thread_index()] += values.values[index];
}

__global__ void linear_texture(cudaTextureObject_t texture, uint32_t *data) {
    data[thread_index()] = tex1Dfetch<uint32_t>(texture, COUNT - 1 - thread_index());
}

__global__ void array_texture(cudaTextureObject_t texture, uint32_t *data) {
    data[thread_index()] = tex2D<uint32_t>(texture, blockIdx.x, threadIdx.x);
}

__constant__ uint32_t table[BLOCK];

__global__ void constants(uint32_t *data) { data[thread_index()] += table[threadIdx.x]; }

__global__ void empty() {}

__global__ void tick(uint32_t *counter) {
    if (thread_index() == 0) ++*counter;
}

__global__ void spin_for(uint64_t nanoseconds, uint32_t *blocks_done) {
    uint64_t begin = now_ns();
    while (now_ns() - begin < nanoseconds) {}
    if (threadIdx.x == 0) atomicAdd(blocks_done, 1);
}

static cudaLaunchConfig_t configuration(uint32_t blocks, cudaLaunchAttribute *attribute) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(BLOCK);
    config.attrs = attribute;
    config.numAttrs = attribute ? 1 : 0;
    return config;
}

static int cooperative(const char *) {
    uint32_t *data = device_memory(COUNT, 0);
    void *parameters[] = {&data};
    CHECK(cudaLaunchCooperativeKernel((void *)cooperates, dim3(BLOCKS), dim3(BLOCK), parameters, 0, nullptr));
    CHECK(cudaDeviceSynchronize());
    check("cooperative call", host_copy(data, COUNT), [](uint32_t index) { return COUNT - 1 - index; });

    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t config = configuration(BLOCKS, &attribute);
    CHECK(cudaLaunchKernelEx(&config, cooperates, data));
    CHECK(cudaDeviceSynchronize());
    check("cooperative attribute", host_copy(data, COUNT), [](uint32_t) { return COUNT - 1; });
    return 0;
}

static int cluster(const char *) {
    for (uint32_t size : {2u, 8u}) {
        uint32_t *data = device_memory(COUNT, 0);
        std::vector<uint32_t> numbers(COUNT);
        for (uint32_t index = 0; index < COUNT; index++) numbers[index] = index;
        CHECK(cudaMemcpy(data, numbers.data(), COUNT * sizeof(uint32_t), cudaMemcpyHostToDevice));
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = size;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        cudaLaunchConfig_t config = configuration(BLOCKS, &attribute);
        CHECK(cudaLaunchKernelEx(&config, clustered, data));
        CHECK(cudaDeviceSynchronize());
        check("cluster", host_copy(data, COUNT), [=](uint32_t index) {
            uint32_t block = index / BLOCK;
            return (block / size * size + (block + 1) % size) * BLOCK + index % BLOCK;
        });
    }
    return 0;
}

static int dependent(const char *) {
    constexpr uint32_t PAIRS = 20;
    uint32_t *data = device_memory(COUNT, 0), *sums = device_memory(COUNT, 0);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    for (uint32_t pair = 0; pair < PAIRS; pair++) {
        first<<<BLOCKS, BLOCK, 0, stream>>>(data);
        cudaLaunchConfig_t config = configuration(BLOCKS, &attribute);
        config.stream = stream;
        CHECK(cudaLaunchKernelEx(&config, second, (const uint32_t *)data, sums));
    }
    CHECK(cudaStreamSynchronize(stream));
    check("dependent launches", host_copy(sums, COUNT), [](uint32_t) { return PAIRS * (PAIRS + 1) / 2; });
    return 0;
}

static int parameters(const char *) {
    static Wide values;
    static_assert(sizeof(Wide) + sizeof(uint32_t *) == 32000, "what the launch passes");
    for (uint32_t index = 0; index < 7998; index++) values.values[index] = index + 1;
    uint32_t *data = device_memory(COUNT, 0);
    for (int launch = 0; launch < 3; launch++) wide<<<BLOCKS, BLOCK>>>(values, data);
    CHECK(cudaGetLastError());
    check("wide parameters", host_copy(data, COUNT), [](uint32_t index) {
        return 3 * (index + 1 + (index + COUNT < 7998 ? index + COUNT + 1 : 0));
    });
    return 0;
}

static int textures(const char *) {
    std::vector<uint32_t> numbers(COUNT);
    for (uint32_t index = 0; index < COUNT; index++) numbers[index] = 7 * index;
    uint32_t *data = device_memory(COUNT, 0), *source = device_memory(COUNT, 0);
    CHECK(cudaMemcpy(source, numbers.data(), COUNT * sizeof(uint32_t), cudaMemcpyHostToDevice));
    cudaTextureDesc description = {};
    description.readMode = cudaReadModeElementType;
    description.filterMode = cudaFilterModePoint;

    cudaResourceDesc linear = {};
    linear.resType = cudaResourceTypeLinear;
    linear.res.linear.devPtr = source;
    linear.res.linear.desc = cudaCreateChannelDesc<uint32_t>();
    linear.res.linear.sizeInBytes = COUNT * sizeof(uint32_t);
    cudaTextureObject_t texture = 0;
    CHECK(cudaCreateTextureObject(&texture, &linear, &description, nullptr));
    linear_texture<<<BLOCKS, BLOCK>>>(texture, data);
    CHECK(cudaDeviceSynchronize());
    check("texture of linear memory", host_copy(data, COUNT), [](uint32_t index) { return 7 * (COUNT - 1 - index); });
    CHECK(cudaDestroyTextureObject(texture));

    // A row of the array has one element for each block, and there is a row for each thread of a block.
    cudaChannelFormatDesc channel = cudaCreateChannelDesc<uint32_t>();
    cudaResourceDesc array = {};
    array.resType = cudaResourceTypeArray;
    CHECK(cudaMallocArray(&array.res.array.array, &channel, BLOCKS, BLOCK));
    size_t row = BLOCKS * sizeof(uint32_t);
    CHECK(cudaMemcpy2DToArray(array.res.array.array, 0, 0, numbers.data(), row, row, BLOCK, cudaMemcpyHostToDevice));
    CHECK(cudaCreateTextureObject(&texture, &array, &description, nullptr));
    array_texture<<<BLOCKS, BLOCK>>>(texture, data);
    CHECK(cudaDeviceSynchronize());
    check("texture of an array", host_copy(data, COUNT),
          [](uint32_t index) { return 7 * (index % BLOCK * BLOCKS + index / BLOCK); });
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFreeArray(array.res.array.array));
    return 0;
}

static int changing_constants(const char *) {
    uint32_t *data = device_memory(COUNT, 0);
    for (uint32_t launch = 1; launch <= 3; launch++) {
        uint32_t values[BLOCK];
        for (uint32_t index = 0; index < BLOCK; index++) values[index] = launch * index;
        CHECK(cudaMemcpyToSymbol(table, values, sizeof values));
        constants<<<BLOCKS, BLOCK>>>(data);
        CHECK(cudaGetLastError());
    }
    check("constant memory", host_copy(data, COUNT), [](uint32_t index) { return 6 * (index % BLOCK); });
    return 0;
}

static int tiny_launches(const char *argument) {
    uint32_t launches = argument ? strtoul(argument, nullptr, 10) : 100000;
    uint32_t *counter = device_memory(1, 0);
    for (uint32_t number = 0; number < launches; number++) {
        if (number % 2) empty<<<1, 32>>>();
        else tick<<<1, 32>>>(counter);
    }
    CHECK(cudaGetLastError());
    check("launches that count", host_copy(counter, 1), [=](uint32_t) { return (launches + 1) / 2; });
    return 0;
}

static int spin(const char *) {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    uint32_t blocks = properties.multiProcessorCount, expected = 0;
    uint32_t *blocks_done = device_memory(1, 0);
    for (uint32_t milliseconds : {1, 10, 60, 200, 500}) {
        spin_for<<<blocks, 128>>>(milliseconds * 1000000ull, blocks_done);
        CHECK(cudaDeviceSynchronize());
        expected += blocks;
        bool is_done = host_copy(blocks_done, 1)[0] == expected;
        say("spun for %u ms: %s", milliseconds, is_done ? "right" : "WRONG");
        if (!is_done) return 1;
    }
    return 0;
}

int main(int count, char **words) {
    return run_mode(count, words,
                    {{"cooperative", cooperative},
                     {"cluster", cluster},
                     {"dependent", dependent},
                     {"parameters", parameters},
                     {"textures", textures},
                     {"constants", changing_constants},
                     {"tiny_launches", tiny_launches},
                     {"spin", spin}});
}
