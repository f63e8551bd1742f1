// Launches and decisions of the device itself. Needs -rdc=true and the device runtime.
//
//   conditional_graph  a graph with an `if` whose body runs in two of three launches, and a `while` of 5 turns: by
//                      launches 1 and 3 eight kernels each (prepare, chosen, 5 x turn, finish), by launch 2 seven
//   device_graph       a graph with one kernel that launches 3 other graphs, fire and forget. It is launched twice
//   dynamic            kernels that launch kernels (dynamic parallelism), one of them at the parent's end

#include "zoo.h"

constexpr uint32_t COUNT = 1 << 12;
constexpr uint32_t TURNS = 5;
constexpr uint32_t CHILDREN = 3;

__global__ void prepare(cudaGraphConditionalHandle handle, const uint32_t *is_chosen, uint32_t *turn) {
    *turn = 0;
    cudaGraphSetConditional(handle, *is_chosen);
}

__global__ void chosen(uint32_t *data) { data[thread_index()] += 1000; }

__global__ void turns(cudaGraphConditionalHandle handle, uint32_t *data, uint32_t *turn) {
    data[thread_index()] += 1;
    if (thread_index() == 0) cudaGraphSetConditional(handle, ++*turn < TURNS);
}

__global__ void finish(uint32_t *data) { data[thread_index()] *= 2; }

__global__ void add(uint32_t *data, uint32_t value) { data[thread_index()] += value; }

struct Graphs {
    cudaGraphExec_t execs[CHILDREN];
};

__global__ void launch_graphs(Graphs graphs) {
    for (cudaGraphExec_t exec : graphs.execs) cudaGraphLaunch(exec, cudaStreamGraphFireAndForget);
}

__global__ void parent(uint32_t *data) {
    if (thread_index() != 0) return;
    add<<<COUNT / BLOCK, BLOCK>>>(data, 1);
    finish<<<COUNT / BLOCK, BLOCK, 0, cudaStreamTailLaunch>>>(data);
}

static cudaGraphNode_t kernel_node(cudaGraph_t graph, std::vector<cudaGraphNode_t> after, const void *kernel,
                                   uint32_t blocks, uint32_t threads, void **parameters) {
    cudaKernelNodeParams params = {};
    params.func = const_cast<void *>(kernel);
    params.gridDim = dim3(blocks);
    params.blockDim = dim3(threads);
    params.kernelParams = parameters;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &params));
    return node;
}

static cudaGraphNode_t conditional_node(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle handle,
                                        cudaGraphConditionalNodeType type, cudaGraph_t *body) {
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = 1;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddNode(&node, graph, &after, nullptr, 1, &params));
    *body = params.conditional.phGraph_out[0];
    return node;
}

static int conditional_graph(const char *) {
    uint32_t *data = device_memory(COUNT, 0), *is_chosen = device_memory(1, 1), *turn = device_memory(1, 0);
    cudaGraph_t graph, body;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle choice, repetition;
    CHECK(cudaGraphConditionalHandleCreate(&choice, graph, 0, cudaGraphCondAssignDefault));
    CHECK(cudaGraphConditionalHandleCreate(&repetition, graph, 1, cudaGraphCondAssignDefault));

    void *of_prepare[] = {&choice, &is_chosen, &turn}, *of_data[] = {&data}, *of_turn[] = {&repetition, &data, &turn};
    cudaGraphNode_t node = kernel_node(graph, {}, (void *)prepare, 1, 1, of_prepare);
    node = conditional_node(graph, node, choice, cudaGraphCondTypeIf, &body);
    kernel_node(body, {}, (void *)chosen, COUNT / BLOCK, BLOCK, of_data);
    node = conditional_node(graph, node, repetition, cudaGraphCondTypeWhile, &body);
    kernel_node(body, {}, (void *)turns, COUNT / BLOCK, BLOCK, of_turn);
    kernel_node(graph, {node}, (void *)finish, COUNT / BLOCK, BLOCK, of_data);

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    uint32_t expected = 0;
    for (uint32_t choose : {1u, 0u, 1u}) {
        CHECK(cudaMemcpy(is_chosen, &choose, sizeof choose, cudaMemcpyHostToDevice));
        CHECK(cudaGraphLaunch(exec, nullptr));
        CHECK(cudaDeviceSynchronize());
        expected = (expected + choose * 1000 + TURNS) * 2;
        check(choose ? "body of the if" : "no body of the if", host_copy(data, COUNT),
              [=](uint32_t) { return expected; });
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    return 0;
}

static int device_graph(const char *) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    Graphs graphs;
    uint32_t *data[CHILDREN];
    for (uint32_t number = 0; number < CHILDREN; number++) {
        data[number] = device_memory(COUNT, 0);
        cudaGraph_t launched;
        CHECK(cudaGraphCreate(&launched, 0));
        uint32_t value = number + 1;
        void *of_add[] = {&data[number], &value};
        kernel_node(launched, {}, (void *)add, COUNT / BLOCK, BLOCK, of_add);
        CHECK(cudaGraphInstantiate(&graphs.execs[number], launched, cudaGraphInstantiateFlagDeviceLaunch));
        CHECK(cudaGraphUpload(graphs.execs[number], stream));
    }
    CHECK(cudaStreamSynchronize(stream));

    // Only a kernel in a graph may launch a graph.
    cudaGraph_t launching;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&launching, 0));
    void *of_launch[] = {&graphs};
    kernel_node(launching, {}, (void *)launch_graphs, 1, 1, of_launch);
    CHECK(cudaGraphInstantiate(&exec, launching, 0));
    for (uint32_t launch = 1; launch <= 2; launch++) {
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (uint32_t number = 0; number < CHILDREN; number++)
            check("graph launched by a kernel", host_copy(data[number], COUNT),
                  [=](uint32_t) { return launch * (number + 1); });
    }
    CHECK(cudaGraphExecDestroy(exec));
    for (cudaGraphExec_t launched : graphs.execs) CHECK(cudaGraphExecDestroy(launched));
    return 0;
}

static int dynamic(const char *) {
    uint32_t *data = device_memory(COUNT, 0), expected = 0;
    for (int launch = 1; launch <= 4; launch++) {
        parent<<<1, 32>>>(data);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        expected = (expected + 1) * 2;
        check("parent and its children", host_copy(data, COUNT), [=](uint32_t) { return expected; });
    }
    return 0;
}

int main(int count, char **words) {
    return run_mode(count, words,
                    {{"conditional_graph", conditional_graph}, {"device_graph", device_graph}, {"dynamic", dynamic}});
}
