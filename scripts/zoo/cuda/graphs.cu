// CUDA graphs that are launched by the host.
//
//   stream_graph  two kernels captured from a stream: launched 3 times, updated by a capture of another size, launched,
//                 one node's parameters set, launched: 10 kernels
//   api_graph     a graph built node by node: memset, a kernel, a child graph with a kernel, the first kernel again,
//                 a copy. Launched 3 times; once with a node disabled; enabled again; with other parameters: 3 kernels
//                 a launch, 2 in the one with the disabled node

#include "zoo.h"

constexpr uint32_t COUNT = 1 << 14;

__global__ void add(uint32_t *data, uint32_t count, uint32_t value) {
    if (thread_index() < count) data[thread_index()] += value;
}

__global__ void times(uint32_t *data, uint32_t count, uint32_t value) {
    if (thread_index() < count) data[thread_index()] *= value;
}

// Parameters of a kernel node over `count` elements; the values must live until the node is made or set.
struct NodeParameters {
    uint32_t *data;
    uint32_t count, value;
    void *pointers[3] = {&data, &count, &value};
    cudaKernelNodeParams params = {};

    NodeParameters(void (*kernel)(uint32_t *, uint32_t, uint32_t), uint32_t *data, uint32_t count, uint32_t value)
        : data(data), count(count), value(value) {
        params.func = (void *)kernel;
        params.gridDim = dim3(blocks_for(count));
        params.blockDim = dim3(BLOCK);
        params.kernelParams = pointers;
    }
    NodeParameters(const NodeParameters &) = delete;
};

static cudaGraph_t capture(cudaStream_t stream, uint32_t *data, uint32_t count) {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<blocks_for(count), BLOCK, 0, stream>>>(data, count, 5);
    times<<<blocks_for(count), BLOCK, 0, stream>>>(data, count, 3);
    CHECK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static int stream_graph(const char *) {
    uint32_t *data = device_memory(COUNT, 1);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));

    cudaGraph_t graph = capture(stream, data, COUNT);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int launch = 0; launch < 3; launch++) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    auto step = [](uint32_t value, uint32_t added = 5) { return (value + added) * 3; };
    auto thrice = [=](uint32_t) { return step(step(step(1))); };
    check("captured, 3 launches", host_copy(data, COUNT), thrice);

    cudaGraph_t half = capture(stream, data, COUNT / 2);
    cudaGraphExecUpdateResultInfo result = {};
    CHECK(cudaGraphExecUpdate(exec, half, &result));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    auto updated = [=](uint32_t index) { return index < COUNT / 2 ? step(thrice(index)) : thrice(index); };
    check("updated to half the size", host_copy(data, COUNT), updated);

    // The first kernel is the node that depends on none.
    cudaGraphNode_t first;
    size_t roots = 1;
    CHECK(cudaGraphGetRootNodes(graph, &first, &roots));
    NodeParameters parameters(add, data, COUNT / 4, 100);
    CHECK(cudaGraphExecKernelNodeSetParams(exec, first, &parameters.params));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    check("node's parameters set", host_copy(data, COUNT), [=](uint32_t index) {
        return index < COUNT / 2 ? step(updated(index), index < COUNT / 4 ? 100 : 0) : updated(index);
    });
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(half));
    CHECK(cudaGraphDestroy(graph));
    return 0;
}

static int api_graph(const char *) {
    uint32_t *data = device_memory(COUNT, 9), *copy = device_memory(COUNT, 0);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));

    cudaGraph_t child, graph;
    cudaGraphNode_t inner, memset_node, first, child_node, second, copy_node;
    CHECK(cudaGraphCreate(&child, 0));
    NodeParameters tripled(times, data, COUNT, 3);
    CHECK(cudaGraphAddKernelNode(&inner, child, nullptr, 0, &tripled.params));

    CHECK(cudaGraphCreate(&graph, 0));
    cudaMemsetParams ones = {};
    ones.dst = data;
    ones.elementSize = sizeof(uint32_t);
    ones.width = COUNT;
    ones.height = 1;
    ones.value = 1;
    NodeParameters plus5(add, data, COUNT, 5), plus7(add, data, COUNT, 7), plus10(add, data, COUNT, 10);
    CHECK(cudaGraphAddMemsetNode(&memset_node, graph, nullptr, 0, &ones));
    CHECK(cudaGraphAddKernelNode(&first, graph, &memset_node, 1, &plus5.params));
    CHECK(cudaGraphAddChildGraphNode(&child_node, graph, &first, 1, child));
    CHECK(cudaGraphAddKernelNode(&second, graph, &child_node, 1, &plus7.params));
    CHECK(cudaGraphAddMemcpyNode1D(&copy_node, graph, &second, 1, copy, data, COUNT * sizeof(uint32_t),
                                   cudaMemcpyDeviceToDevice));

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    auto launch = [&](const char *what, int launches, uint32_t expected) {
        for (int number = 0; number < launches; number++) CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        check(what, host_copy(copy, COUNT), [=](uint32_t) { return expected; });
    };
    launch("built, 3 launches", 3, (1 + 5) * 3 + 7);
    CHECK(cudaGraphNodeSetEnabled(exec, second, 0));
    launch("second kernel disabled", 1, (1 + 5) * 3);
    CHECK(cudaGraphNodeSetEnabled(exec, second, 1));
    launch("second kernel enabled", 1, (1 + 5) * 3 + 7);
    CHECK(cudaGraphExecKernelNodeSetParams(exec, first, &plus10.params));
    launch("first kernel adds 10", 2, (1 + 10) * 3 + 7);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(child));
    return 0;
}

int main(int count, char **words) {
    return run_mode(count, words, {{"stream_graph", stream_graph}, {"api_graph", api_graph}});
}
