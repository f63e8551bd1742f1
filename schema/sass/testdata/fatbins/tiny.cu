// As little code as possible, for several architectures: the test of fatbins.

__global__ void tiny(float* out, float x)
{
    out[threadIdx.x] = x;
}
