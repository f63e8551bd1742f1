// The functions of the capture `tiny`. Build `tiny.cubin` with: nvcc -arch=sm_90 -cubin tiny.cu

// Reads a float from a place that is not near that of the next lane.
__global__ void gather(const float* table, unsigned seed, float* out) {
    unsigned lane = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned place = (lane + seed) * 2654435761u >> 18;
    out[lane] = table[place] + 1.0f;
}

__global__ void add(float* x, float value) {
    unsigned lane = blockIdx.x * blockDim.x + threadIdx.x;
    x[lane] += value;
}
