// The function of the capture `blame`, and how `blame.cubin` was made of it: nvcc -arch=sm_90 -cubin blame.cu

__global__ void blame(const float* loaded, float* stored) {
    __shared__ float kept[64];
    float value = loaded[threadIdx.x];
    kept[threadIdx.x] = value;
    __syncthreads();
    stored[threadIdx.x] = value + kept[63 - threadIdx.x];
}
