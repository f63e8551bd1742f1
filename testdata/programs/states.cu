// Launches that need more than parameters and plain memory: what replay must bring along, and what it must refuse.
//
// To be replayed: `counts` (variables of the module, one of them static, and constants), `cooperates` (blocks that wait
// for each other), `clusters` (shared memory of a neighbouring block), `spacious` (more dynamic shared memory than a
// kernel may use unasked). To be refused: `pinned` (host memory), `textures`, `allocates` (memory of the device's heap).

#include <cooperative_groups.h>
#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

constexpr int THREADS = 128, BLOCKS = 8, COUNT = THREADS * BLOCKS;

__device__ int total = 7;
static __device__ int hidden[3000];
__constant__ int table[256];

__device__ int index_of_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

__global__ void counts(int *out) {
    int i = index_of_thread();
    out[i] = table[i % 256] + hidden[i % 3000];
    if (i < 3000) hidden[i] += 2;
    atomicAdd(&total, 1);
}

__global__ void cooperates(int *out) {
    int i = index_of_thread();
    out[i] = i;
    cg::this_grid().sync();
    int other = out[COUNT - 1 - i];
    cg::this_grid().sync();
    out[i] = other;
}

__global__ void __cluster_dims__(2) clusters(int *out) {
    __shared__ int mine[THREADS];
    cg::cluster_group cluster = cg::this_cluster();
    mine[threadIdx.x] = index_of_thread();
    cluster.sync();
    out[index_of_thread()] = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1)[threadIdx.x];
    cluster.sync();
}

__global__ void spacious(int *out, int words) {
    extern __shared__ int shared[];
    for (int i = threadIdx.x; i < words; i += blockDim.x) shared[i] = i;
    __syncthreads();
    out[index_of_thread()] = shared[words - 1 - threadIdx.x];
}

__global__ void pinned(int *out, const int *host) { out[index_of_thread()] = host[index_of_thread()]; }

__global__ void textures(int *out, cudaTextureObject_t texture) {
    out[index_of_thread()] = tex1Dfetch<int>(texture, index_of_thread());
}

__global__ void allocates(int *out) {
    int *heap = (int *)malloc(sizeof(int));
    if (heap) *heap = index_of_thread();
    out[index_of_thread()] = heap ? *heap : -1;
    free(heap);
}

static int *out;

// What a launch left in `out`, compared with what each thread must have written.
template <typename Expected> bool is_right(const char *name, Expected expected) {
    std::vector<int> found(COUNT);
    cudaError_t error = cudaMemcpy(found.data(), out, COUNT * sizeof(int), cudaMemcpyDeviceToHost);
    bool right = error == cudaSuccess;
    for (int i = 0; right && i < COUNT; i++) right = found[i] == expected(i);
    printf("{\"kernel\": \"%s\", \"right\": %s}\n", name, right ? "true" : "false");
    return right;
}

int main() {
    std::vector<int> numbers(COUNT), hiddens(3000);
    for (int i = 0; i < COUNT; i++) numbers[i] = 3 * i + 1;
    for (int i = 0; i < 3000; i++) hiddens[i] = 5 * i;
    int *source, *host, *host_on_device, right = 1;
    cudaMalloc(&out, COUNT * sizeof(int));
    cudaMalloc(&source, COUNT * sizeof(int));
    cudaMemcpy(source, numbers.data(), COUNT * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(table, numbers.data(), sizeof table);
    cudaMemcpyToSymbol(hidden, hiddens.data(), sizeof hidden);

    counts<<<BLOCKS, THREADS>>>(out);
    right &= is_right("counts", [&](int i) { return numbers[i % 256] + hiddens[i]; });

    void *parameters[] = {&out};
    cudaLaunchCooperativeKernel((void *)cooperates, dim3(BLOCKS), dim3(THREADS), parameters, 0, 0);
    right &= is_right("cooperates", [](int i) { return COUNT - 1 - i; });

    clusters<<<BLOCKS, THREADS>>>(out);
    right &= is_right("clusters", [](int i) { return i ^ THREADS; });

    int bytes = 100 << 10;
    cudaFuncSetAttribute(spacious, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    spacious<<<BLOCKS, THREADS, bytes>>>(out, bytes / 4);
    right &= is_right("spacious", [&](int i) { return bytes / 4 - 1 - i % THREADS; });

    cudaHostAlloc(&host, COUNT * sizeof(int), cudaHostAllocMapped);
    cudaHostGetDevicePointer(&host_on_device, host, 0);
    for (int i = 0; i < COUNT; i++) host[i] = 9 * i;
    pinned<<<BLOCKS, THREADS>>>(out, host_on_device);
    right &= is_right("pinned", [](int i) { return 9 * i; });

    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = source;
    resource.res.linear.desc = cudaCreateChannelDesc<int>();
    resource.res.linear.sizeInBytes = COUNT * sizeof(int);
    cudaTextureDesc description = {};
    description.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture = 0;
    cudaCreateTextureObject(&texture, &resource, &description, nullptr);
    textures<<<BLOCKS, THREADS>>>(out, texture);
    right &= is_right("textures", [&](int i) { return numbers[i]; });

    allocates<<<BLOCKS, THREADS>>>(out);
    right &= is_right("allocates", [](int i) { return i; });
    return right ? 0 : 2;
}
