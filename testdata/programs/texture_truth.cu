// Kernels that wait for one texture or surface each: printed as one JSON object per line, with its name and bytes.
//
// Textures are of CUDA arrays, of several layers, of linear and of pitched memory. One handle is a field of a struct, one
// texel's place comes from a load. Places are scattered, so that most of a kernel's time is the wait for its texture.

#include <cstdio>

#include <cuda_runtime.h>

#include "truth.h"

constexpr int kBlocks = 512;
constexpr int kThreads = 256;
constexpr int kSteps = 64;
constexpr unsigned kWidth = 4096;
constexpr unsigned kHeight = 4096;
constexpr unsigned kLayers = 4;
constexpr unsigned kIndices = 1 << 20;

struct ScaledTextures {
    float scale;
    cudaTextureObject_t small;
    cudaTextureObject_t large;
};

// The next place depends on the texel before: one wait a step.
template <typename Lookup>
__device__ void walk(float *out, Lookup lookup) {
    unsigned thread = blockIdx.x * kThreads + threadIdx.x, place = thread;
    float sum = 0.0f;
    for (int step = 0; step < kSteps; step++) {
        place = place * 1664525u + 1013904223u;
        float texel = lookup((place >> 8) % kWidth, (place >> 18) % kHeight);
        sum += texel;
        place ^= __float_as_uint(texel) & 1;
    }
    out[thread] = sum;
}

__global__ void of_array(cudaTextureObject_t from, float *out) {
    walk(out, [=](unsigned x, unsigned y) { return tex2D<float>(from, x, y); });
}

__global__ void of_layers(cudaTextureObject_t from, float *out) {
    walk(out, [=](unsigned x, unsigned y) { return tex2DLayered<float>(from, x / 2, y / 2, y % kLayers); });
}

__global__ void of_linear(cudaTextureObject_t from, float *out) {
    walk(out, [=](unsigned x, unsigned y) { return tex1Dfetch<float>(from, y * kWidth + x); });
}

__global__ void of_pitched(cudaTextureObject_t from, float *out) {
    walk(out, [=](unsigned x, unsigned y) { return tex2D<float>(from, x, y); });
}

__global__ void of_struct(ScaledTextures from, float *out) {
    walk(out, [=](unsigned x, unsigned y) { return from.scale * tex2D<float>(from.large, x, y); });
    out[blockIdx.x * kThreads + threadIdx.x] += tex1Dfetch<float>(from.small, threadIdx.x);
}

__global__ void of_surface(cudaSurfaceObject_t from, float *out) {
    walk(out, [=](unsigned x, unsigned y) { return surf2Dread<float>(from, 4 * x, y); });
}

__global__ void of_indices(cudaTextureObject_t from, const int *indices, float *out) {
    unsigned thread = blockIdx.x * kThreads + threadIdx.x;
    float sum = 0.0f;
    for (int step = 0; step < kSteps; step++) sum += tex1Dfetch<float>(from, indices[(thread * kSteps + step) % kIndices]);
    out[thread] = sum;
}

template <typename... Arguments>
void run(const char *name, const char *texture, size_t bytes, void (*kernel)(Arguments...), Arguments... arguments) {
    kernel<<<kBlocks, kThreads>>>(arguments...);
    CHECK(cudaDeviceSynchronize());
    printf("{\"kernel\": \"%s\", \"texture\": \"%s\", \"bytes\": %zu}\n", name, texture, bytes);
}

int main() {
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array, layers;
    CHECK(cudaMallocArray(&array, &format, kWidth, kHeight, cudaArraySurfaceLoadStore));
    cudaExtent extent = make_cudaExtent(kWidth / 2, kHeight / 2, kLayers);
    CHECK(cudaMalloc3DArray(&layers, &format, extent, cudaArrayLayered));

    size_t bytes = size_t(kWidth) * kHeight * 4, pitch = 0;
    float *linear, *pitched, *out;
    int *indices;
    CHECK(cudaMalloc(&linear, bytes));
    CHECK(cudaMemset(linear, 0, bytes));
    CHECK(cudaMallocPitch(&pitched, &pitch, (kWidth + 64) * 4, kHeight));
    CHECK(cudaMemset(pitched, 0, pitch * kHeight));
    CHECK(cudaMalloc(&indices, kIndices * 4));
    CHECK(cudaMemset(indices, 0, kIndices * 4));
    CHECK(cudaMalloc(&out, kBlocks * kThreads * 4));

    cudaTextureDesc plain = {};
    auto texture = [&](const cudaResourceDesc &resource) {
        cudaTextureObject_t made;
        CHECK(cudaCreateTextureObject(&made, &resource, &plain, nullptr));
        return made;
    };
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureObject_t ofArray = texture(resource);
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    resource.res.array.array = layers;
    cudaTextureObject_t ofLayers = texture(resource);
    resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = linear;
    resource.res.linear.desc = format;
    resource.res.linear.sizeInBytes = bytes;
    cudaTextureObject_t ofLinear = texture(resource);
    resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = pitched;
    resource.res.pitch2D.desc = format;
    resource.res.pitch2D.width = kWidth;
    resource.res.pitch2D.height = kHeight;
    resource.res.pitch2D.pitchInBytes = pitch;
    cudaTextureObject_t ofPitched = texture(resource);

    run("of_array", "array", bytes, of_array, ofArray, out);
    run("of_layers", "layers", bytes, of_layers, ofLayers, out);
    run("of_linear", "linear", bytes, of_linear, ofLinear, out);
    run("of_pitched", "pitched", pitch * kHeight, of_pitched, ofPitched, out);
    run("of_struct", "array", bytes, of_struct, ScaledTextures{2.0f, ofLinear, ofArray}, out);
    run("of_surface", "array", bytes, of_surface, surface, out);
    run("of_indices", "linear", bytes, of_indices, ofLinear, static_cast<const int *>(indices), out);
    return 0;
}
