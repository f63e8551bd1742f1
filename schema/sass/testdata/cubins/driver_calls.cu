// Kernels that call functions of the driver, and one that calls none.
#include <cstdio>

__global__ void prints(unsigned *data) {
    if (data[threadIdx.x] == 0) printf("%u\n", threadIdx.x);
}

__global__ void allocates(unsigned **data) { data[threadIdx.x] = new unsigned(threadIdx.x); }

__global__ void plain(unsigned *data) { data[threadIdx.x] += 1; }
