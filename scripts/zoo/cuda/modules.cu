// Modules that are loaded while the program runs, with kernels of one name.
//
//   same_name  two modules whose kernels are both called `work` and do different things, launched in turns. One is
//              unloaded and a third of the same name comes, maybe at its place: 24 launches
//   late       a module loaded, used once and unloaded, 20 times

#include <cuda.h>
#include <string>

#include "zoo.h"

constexpr uint32_t COUNT = 1 << 12;

// The text of a module with the kernel work(data, count), which does `step` to %value, a number of `data`.
static std::string module_text(const char *step) {
    std::string text = R"(
.version 8.0
.target sm_90
.address_size 64

.visible .entry work(.param .u64 data, .param .u32 count)
{
    .reg .pred %is_outside;
    .reg .b32 %index, %block, %width, %thread, %limit, %value;
    .reg .b64 %data, %offset, %place;
    ld.param.u64 %data, [data];
    ld.param.u32 %limit, [count];
    mov.u32 %block, %ctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %thread, %tid.x;
    mad.lo.u32 %index, %block, %width, %thread;
    setp.ge.u32 %is_outside, %index, %limit;
    @%is_outside bra done;
    cvta.to.global.u64 %data, %data;
    mul.wide.u32 %offset, %index, 4;
    add.u64 %place, %data, %offset;
    ld.global.u32 %value, [%place];
    STEP
    st.global.u32 [%place], %value;
done:
    ret;
}
)";
    return text.replace(text.find("STEP"), 4, step);
}

struct Module {
    CUmodule module;
    CUfunction work;

    explicit Module(const char *step) {
        CHECK_DRIVER(cuModuleLoadData(&module, module_text(step).c_str()));
        CHECK_DRIVER(cuModuleGetFunction(&work, module, "work"));
    }
    void launch(CUdeviceptr data) const {
        uint32_t count = COUNT;
        void *parameters[] = {&data, &count};
        CHECK_DRIVER(cuLaunchKernel(work, COUNT / BLOCK, 1, 1, BLOCK, 1, 1, 0, nullptr, parameters, nullptr));
    }
    void unload() const { CHECK_DRIVER(cuModuleUnload(module)); }
};

constexpr const char *ADD = "add.u32 %value, %value, 1;";
constexpr const char *TRIPLE = "mul.lo.u32 %value, %value, 3;";
constexpr const char *FLIP = "xor.b32 %value, %value, 85;";

static int same_name(const char *) {
    uint32_t *data = device_memory(COUNT, 0), expected = 0;
    CUdeviceptr place = (CUdeviceptr)data;
    Module adding(ADD), tripling(TRIPLE);
    for (int round = 0; round < 6; round++) {
        adding.launch(place);
        tripling.launch(place);
        expected = (expected + 1) * 3;
    }
    check("two modules", host_copy(data, COUNT), [=](uint32_t) { return expected; });
    adding.unload();
    Module flipping(FLIP);
    for (int round = 0; round < 6; round++) {
        flipping.launch(place);
        tripling.launch(place);
        expected = (expected ^ 85) * 3;
    }
    check("one of them replaced", host_copy(data, COUNT), [=](uint32_t) { return expected; });
    flipping.unload();
    tripling.unload();
    return 0;
}

static int late(const char *) {
    uint32_t *data = device_memory(COUNT, 0), expected = 0;
    for (uint32_t round = 0; round < 20; round++) {
        Module module(round % 2 ? TRIPLE : ADD);
        module.launch((CUdeviceptr)data);
        module.unload();
        expected = round % 2 ? expected * 3 : expected + 1;
    }
    check("modules that come and go", host_copy(data, COUNT), [=](uint32_t) { return expected; });
    return 0;
}

int main(int count, char **words) { return run_mode(count, words, {{"same_name", same_name}, {"late", late}}); }
