// Calls between sections that were linked: the test of callees. Compiled twice to be linked, with HERE and without, and linked.

typedef float (*Function)(const float*, int);

#ifdef HERE
extern __device__ float elsewhere(const float* in, int i);
extern __device__ Function table[2];

extern "C" __global__ void direct(float* out, const float* in, int n) { out[n] = elsewhere(in, n); }
extern "C" __global__ void indirect(float* out, const float* in, int n) { out[n] = table[n & 1](in, n); }
extern "C" __global__ void plain(float* out, const float* in, int n) { out[n] = in[n]; }
#else
__device__ __noinline__ float deep(const float* in, int i)
{
    return i > 7 ? in[i] * 2 : in[i] * 3 + sqrtf(in[i + 1]);
}

__device__ __noinline__ float elsewhere(const float* in, int i)
{
    float sum = 0;
    for (int k = 0; k < i; k++) sum += deep(in, k);
    return sum;
}

__device__ float first(const float* in, int i) { return in[i]; }
__device__ float second(const float* in, int i) { return -in[i]; }
__device__ Function table[2] = {first, second};
#endif
