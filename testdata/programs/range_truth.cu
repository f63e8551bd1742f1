// Kernels in ranges of NVTX, each with the path that it must be in: printed as one JSON object per line.
//
// Ranges nest, overlap, belong to domains, have registered names and payloads, and begin before CUDA does. One ends on
// another thread, one is never ended, and one is ended that never began.

#include <cstdio>
#include <thread>

#include <nvtx3/nvToolsExt.h>

constexpr int kBlock = 256;
constexpr int kGrid = 512;
constexpr int kCount = kBlock * kGrid;

// Names of kernels are those of the places that launch them.
#define KERNEL(name) \
  __global__ void name(float* x) { \
    int i = blockIdx.x * kBlock + threadIdx.x; \
    x[i] = x[i] * 0.5f + 1.0f; \
  }
KERNEL(outside)
KERNEL(early)
KERNEL(smooth)
KERNEL(residual)
KERNEL(overlapped)
KERNEL(overlapping)
KERNEL(elsewhere)

static float* x;

static void launch(void (*kernel)(float*), const char* name, const char* path) {
  kernel<<<kGrid, kBlock>>>(x);
  std::printf("{\"kernel\": \"%s\", \"path\": \"%s\"}\n", name, path);
}

static nvtxEventAttributes_t attributes() {
  nvtxEventAttributes_t a = {};
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  return a;
}

int main() {
  nvtxRangePushA("program");
  nvtxDomainHandle_t solver = nvtxDomainCreateA("solver");
  nvtxStringHandle_t name = nvtxDomainRegisterStringA(solver, "smooth");
  cudaMalloc(&x, kCount * sizeof(float));
  cudaMemset(x, 0, kCount * sizeof(float));
  launch(early, "early", "program");
  for (int step = 0; step < 2; ++step) {
    nvtxRangePushA("step");
    nvtxEventAttributes_t a = attributes();
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = name;
    a.category = 7;
    a.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
    a.payload.dValue = 2.0 * kCount;
    nvtxDomainRangePushEx(solver, &a);
    launch(smooth, "smooth", "program / step / smooth");
    nvtxDomainRangePop(solver);
    a = attributes();
    a.messageType = NVTX_MESSAGE_TYPE_UNICODE;
    a.message.unicode = L"r\u00e9sidu";
    a.payloadType = NVTX_PAYLOAD_TYPE_INT32;
    a.payload.iValue = step;
    nvtxRangePushEx(&a);
    launch(residual, "residual", "program / step / r\u00e9sidu");
    nvtxRangePop();
    nvtxMarkA("mark");
    nvtxRangePop();
  }
  nvtxRangeId_t first = nvtxRangeStartA("first");
  nvtxRangeId_t second = nvtxRangeStartA("second");
  launch(overlapped, "overlapped", "program / first / second");
  std::thread([&] {
    nvtxRangeEnd(second);
    nvtxRangePushA("worker");
    launch(elsewhere, "elsewhere", "worker");
    nvtxRangePop();
  }).join();
  launch(overlapping, "overlapping", "program / first");
  nvtxRangeEnd(first);
  nvtxRangePop();
  nvtxRangePop();
  nvtxRangeEnd(1u << 30);
  launch(outside, "outside", "");
  nvtxRangePushA("never ended");
  return cudaDeviceSynchronize() != cudaSuccess;
}
