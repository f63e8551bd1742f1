// Kernels whose access patterns are known before they are recorded: memory of each warp request, banks that it
// meets, repeated loads, sharing between blocks, distance between uses of a line.
//
// Every access is one `volatile` PTX instruction: none is merged, removed or moved. By default a
// kernel is one block of one warp, that reads `in` by one instruction and writes a word a lane to `out` by another.
//
//   global_*          one read request of `in`: unit, offset (unit, 4 bytes past a sector's begin), stride2 and
//                     stride128 (8 and 128 bytes from lane to lane), broadcast, float4 and half (16 and 2 bytes),
//                     tiled (4 rows of 8 words, 256 bytes apart), gather, reverse. tail: 33 threads, so 2 requests
//   shared_*          33 write requests of unit stride fill 1056 words, then one read request: stride1, 2, 32, 33,
//                     broadcast, unit8, unit16 (8 and 16 bytes), spaced16 (16 bytes, 32 apart); store2 writes the
//                     words of stride 2 once more, and reads them in order
//   again_thread      each thread reads its word twice
//   again_stored      the same with a write of the word in between: no read is redundant
//   again_warp        a warp reads 32 words, then the same in reverse: redundant in the warp, not in a thread
//   again_block       two warps read 64 words, then each reads the other's: redundant in the block only
//   again_grid        4 blocks read the same 32 words: redundant in the grid only
//   halo              4 blocks of 64 threads each read their 64 words and the next 16: 10 sectors a block, 34 in all
//   loop_lines        one warp reads 64 lines of 128 bytes in order, then again: 63 other lines between two uses
//   part              reads the first 256 of the 1024 words of `sparse`
//   produce, consume  write all of `between`, then read it
//   accumulate        reads each word of `sums`, then writes it
//
// Prints one JSON object a kernel: counts of lane accesses, what is known, buffers. Checks every result.
//
// Build: nvcc -O3 -lineinfo -gencode 'arch=compute_90,code=[sm_90,compute_90]' -o access_truth access_truth.cu

#include "truth.h"

#include <set>

constexpr uint32_t WARP = 32;
constexpr uint32_t WORDS = 1056; // of `in`, and of shared memory: 33 for each lane

template <uint32_t BYTES> __device__ uint32_t load(const void *address);
template <> __device__ inline uint32_t load<2>(const void *address) {
    uint16_t value;
    asm volatile("ld.volatile.global.u16 %0, [%1];" : "=h"(value) : "l"(address) : "memory");
    return value;
}
template <> __device__ inline uint32_t load<4>(const void *address) {
    uint32_t value;
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}
template <> __device__ inline uint32_t load<16>(const void *address) {
    uint32_t a, b, c, d;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(address) : "memory");
    return a + b + c + d;
}

__device__ inline void store(uint32_t *address, uint32_t value) {
    asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

template <uint32_t BYTES> __device__ uint32_t load_shared(uint32_t address);
template <> __device__ inline uint32_t load_shared<4>(uint32_t address) {
    uint32_t value;
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}
template <> __device__ inline uint32_t load_shared<8>(uint32_t address) {
    uint32_t a, b;
    asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(address) : "memory");
    return a + b;
}
template <> __device__ inline uint32_t load_shared<16>(uint32_t address) {
    uint32_t a, b, c, d;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(address) : "memory");
    return a + b + c + d;
}

__device__ inline void store_shared(uint32_t address, uint32_t value) {
    asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

// Bytes from the begin of `in` at which a lane of each pattern reads.
__host__ __device__ inline uint32_t unit(uint32_t lane) { return lane * 4; }
__host__ __device__ inline uint32_t offset(uint32_t lane) { return lane * 4 + 4; }
__host__ __device__ inline uint32_t stride2(uint32_t lane) { return lane * 8; }
__host__ __device__ inline uint32_t stride128(uint32_t lane) { return lane * 128; }
__host__ __device__ inline uint32_t broadcast(uint32_t) { return 0; }
__host__ __device__ inline uint32_t float4s(uint32_t lane) { return lane * 16; }
__host__ __device__ inline uint32_t halves(uint32_t lane) { return lane * 2; }
__host__ __device__ inline uint32_t tiled(uint32_t lane) { return lane / 8 * 256 + lane % 8 * 4; }
__host__ __device__ inline uint32_t gathered(uint32_t lane) { return scatter(lane + 1) % 1024 * 4; }
__host__ __device__ inline uint32_t reversed(uint32_t lane) { return (WARP - 1 - lane) * 4; }

#define GLOBAL(NAME, BYTES, PLACE)                                                                       \
    extern "C" __global__ void NAME(const uint32_t *in, uint32_t *out) {                                 \
        store(out + threadIdx.x, load<BYTES>((const char *)in + PLACE(threadIdx.x)));                    \
    }
GLOBAL(global_unit, 4, unit)
GLOBAL(global_offset, 4, offset)
GLOBAL(global_stride2, 4, stride2)
GLOBAL(global_stride128, 4, stride128)
GLOBAL(global_broadcast, 4, broadcast)
GLOBAL(global_float4, 16, float4s)
GLOBAL(global_half, 2, halves)
GLOBAL(global_tiled, 4, tiled)
GLOBAL(global_gather, 4, gathered)
GLOBAL(global_reverse, 4, reversed)
GLOBAL(global_tail, 4, unit)

__host__ __device__ inline uint32_t stride32(uint32_t lane) { return lane * 128; }
__host__ __device__ inline uint32_t stride33(uint32_t lane) { return lane * 132; }
__host__ __device__ inline uint32_t unit8(uint32_t lane) { return lane * 8; }
__host__ __device__ inline uint32_t spaced16(uint32_t lane) { return lane * 32; }

// What the word at a place of shared memory is filled with.
__host__ __device__ inline uint32_t filling(uint32_t word) { return word * 2654435761u; }

#define SHARED(NAME, BYTES, PLACE)                                                                       \
    extern "C" __global__ void NAME(uint32_t *out) {                                                     \
        __shared__ __align__(128) uint32_t words[WORDS];                                                 \
        uint32_t base = (uint32_t)__cvta_generic_to_shared(words);                                       \
        _Pragma("unroll 1") for (uint32_t word = threadIdx.x; word < WORDS; word += WARP)                \
            store_shared(base + word * 4, filling(word));                                                \
        __syncwarp();                                                                                    \
        store(out + threadIdx.x, load_shared<BYTES>(base + PLACE(threadIdx.x)));                         \
    }
SHARED(shared_stride1, 4, unit)
SHARED(shared_stride2, 4, stride2)
SHARED(shared_stride32, 4, stride32)
SHARED(shared_stride33, 4, stride33)
SHARED(shared_broadcast, 4, broadcast)
SHARED(shared_unit8, 8, unit8)
SHARED(shared_unit16, 16, float4s)
SHARED(shared_spaced16, 16, spaced16)

extern "C" __global__ void shared_store2(uint32_t *out) {
    __shared__ __align__(128) uint32_t words[WORDS];
    uint32_t base = (uint32_t)__cvta_generic_to_shared(words);
#pragma unroll 1
    for (uint32_t word = threadIdx.x; word < WORDS; word += WARP) store_shared(base + word * 4, filling(word));
    __syncwarp();
    store_shared(base + stride2(threadIdx.x), threadIdx.x);
    __syncwarp();
    store(out + threadIdx.x, load_shared<4>(base + unit(threadIdx.x)));
}

extern "C" __global__ void again_thread(const uint32_t *in, uint32_t *out) {
    uint32_t first = load<4>(in + threadIdx.x);
    store(out + threadIdx.x, first + load<4>(in + threadIdx.x));
}

extern "C" __global__ void again_stored(uint32_t *scratch, uint32_t *out) {
    uint32_t first = load<4>(scratch + threadIdx.x);
    store(scratch + threadIdx.x, first + 1);
    store(out + threadIdx.x, first + load<4>(scratch + threadIdx.x));
}

extern "C" __global__ void again_warp(const uint32_t *in, uint32_t *out) {
    uint32_t first = load<4>(in + threadIdx.x);
    store(out + threadIdx.x, first + load<4>(in + WARP - 1 - threadIdx.x));
}

extern "C" __global__ void again_block(const uint32_t *in, uint32_t *out) {
    uint32_t first = load<4>(in + threadIdx.x);
    __syncthreads();
    store(out + threadIdx.x, first + load<4>(in + (threadIdx.x ^ WARP)));
}

extern "C" __global__ void again_grid(const uint32_t *in, uint32_t *out) {
    store(out + blockIdx.x * WARP + threadIdx.x, load<4>(in + threadIdx.x));
}

constexpr uint32_t HALO = 16, HALO_BLOCK = 64, HALO_BLOCKS = 4;

extern "C" __global__ void halo(const uint32_t *in, uint32_t *out) {
    uint32_t place = blockIdx.x * HALO_BLOCK + threadIdx.x;
    uint32_t sum = load<4>(in + place);
    if (threadIdx.x < HALO) sum += load<4>(in + place + HALO_BLOCK);
    store(out + place, sum);
}

constexpr uint32_t LINES = 64;

extern "C" __global__ void loop_lines(const uint32_t *lines, uint32_t *out) {
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < 2 * LINES; step++) sum += load<4>(lines + step % LINES * WARP + threadIdx.x);
    store(out + threadIdx.x, sum);
}

constexpr uint32_t SPARSE = 1024, TOUCHED = 256;

extern "C" __global__ void part(const uint32_t *sparse, uint32_t *out) {
    store(out + threadIdx.x, load<4>(sparse + threadIdx.x));
}

extern "C" __global__ void produce(uint32_t *between) { store(between + threadIdx.x, threadIdx.x * 3); }

extern "C" __global__ void consume(const uint32_t *between, uint32_t *out) {
    store(out + threadIdx.x, load<4>(between + threadIdx.x));
}

extern "C" __global__ void accumulate(uint32_t *sums) {
    store(sums + threadIdx.x, load<4>(sums + threadIdx.x) + 1);
}

struct Fact {
    const char *name;
    uint32_t blocks, threads;
    uint64_t reads, writes, shared_reads, shared_writes; // by lanes
    std::string known;                                   // JSON members
    std::vector<const Buffer *> buffers;
    std::function<void()> launch;
    const Buffer *result;
    std::function<uint32_t(uint32_t word)> value; // of the result's words that threads write
};

static bool run(const Fact &fact) {
    fact.launch();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    std::vector<uint32_t> words = fact.result->read();
    bool right = true;
    for (uint32_t word = 0; word < fact.blocks * fact.threads; word++) right &= words[word] == fact.value(word);
    printf("{\"kernel\": \"%s\", \"grid\": [%u, 1, 1], \"block\": [%u, 1, 1], \"launches\": 1, ", fact.name, fact.blocks,
           fact.threads);
    printf("\"reads\": %llu, \"writes\": %llu, \"atomics\": 0, \"shared_reads\": %llu, \"shared_writes\": %llu, ",
           (unsigned long long)fact.reads, (unsigned long long)fact.writes, (unsigned long long)fact.shared_reads,
           (unsigned long long)fact.shared_writes);
    printf("%s, ", fact.known.c_str());
    print_buffers(fact.buffers);
    printf(", \"right\": %s}\n", right ? "true" : "false");
    return right;
}

static uint32_t in_word(uint32_t word) { return scatter(word); }

// What a load of some bytes gives, words summed, where `word` says what each word holds.
static uint32_t loaded(uint32_t place, uint32_t bytes, uint32_t (*word)(uint32_t)) {
    if (bytes == 2) return word(place / 4) >> place % 4 * 8 & 0xffff;
    uint32_t sum = 0;
    for (uint32_t byte = 0; byte < bytes; byte += 4) sum += word((place + byte) / 4);
    return sum;
}

// Sectors of 32 bytes and bytes that a warp's read touches, byte by byte.
static std::string touched(uint32_t bytes, uint32_t (*place)(uint32_t)) {
    std::set<uint32_t> sectors, all;
    for (uint32_t lane = 0; lane < WARP; lane++)
        for (uint32_t byte = place(lane); byte < place(lane) + bytes; byte++) sectors.insert(byte / 32), all.insert(byte);
    return "\"sectors\": " + std::to_string(sectors.size()) + ", \"unique_bytes\": " + std::to_string(all.size());
}

static bool run_global(const Buffer &in, const Buffer &out) {
    struct Pattern {
        const char *name;
        uint32_t bytes;
        uint32_t (*place)(uint32_t);
        void (*kernel)(const uint32_t *, uint32_t *);
        uint32_t threads;
    };
    const Pattern patterns[] = {{"global_unit", 4, unit, global_unit, WARP},
                                {"global_offset", 4, offset, global_offset, WARP},
                                {"global_stride2", 4, stride2, global_stride2, WARP},
                                {"global_stride128", 4, stride128, global_stride128, WARP},
                                {"global_broadcast", 4, broadcast, global_broadcast, WARP},
                                {"global_float4", 16, float4s, global_float4, WARP},
                                {"global_half", 2, halves, global_half, WARP},
                                {"global_tiled", 4, tiled, global_tiled, WARP},
                                {"global_gather", 4, gathered, global_gather, WARP},
                                {"global_reverse", 4, reversed, global_reverse, WARP},
                                {"global_tail", 4, unit, global_tail, WARP + 1}};
    bool right = true;
    for (const Pattern &pattern : patterns) {
        // The tail's second request is one lane: 1 sector, 4 bytes.
        std::string known = touched(pattern.bytes, pattern.place);
        if (pattern.threads > WARP) known = "\"sectors\": 5, \"unique_bytes\": 132";
        right &= run({pattern.name, 1, pattern.threads, pattern.threads, pattern.threads, 0, 0, known, {&in, &out},
                      [&] { pattern.kernel<<<1, pattern.threads>>>(in.data, out.data); }, &out,
                      [&](uint32_t lane) { return loaded(pattern.place(lane), pattern.bytes, in_word); }});
    }
    return right;
}

static bool run_shared(const Buffer &out) {
    struct Pattern {
        const char *name;
        uint32_t bytes;
        uint32_t (*place)(uint32_t);
        void (*kernel)(uint32_t *);
        uint32_t wavefronts, passes;
    };
    const Pattern patterns[] = {{"shared_stride1", 4, unit, shared_stride1, 1, 1},
                                {"shared_stride2", 4, stride2, shared_stride2, 2, 1},
                                {"shared_stride32", 4, stride32, shared_stride32, 32, 1},
                                {"shared_stride33", 4, stride33, shared_stride33, 1, 1},
                                {"shared_broadcast", 4, broadcast, shared_broadcast, 1, 1},
                                {"shared_unit8", 8, unit8, shared_unit8, 2, 2},
                                {"shared_unit16", 16, float4s, shared_unit16, 4, 4},
                                {"shared_spaced16", 16, spaced16, shared_spaced16, 8, 4}};
    bool right = true;
    for (const Pattern &pattern : patterns) {
        std::string known = "\"wavefronts\": " + std::to_string(pattern.wavefronts) +
                            ", \"passes\": " + std::to_string(pattern.passes);
        right &= run({pattern.name, 1, WARP, 0, WARP, WARP, WORDS, known, {&out},
                      [&] { pattern.kernel<<<1, WARP>>>(out.data); }, &out,
                      [&](uint32_t lane) { return loaded(pattern.place(lane), pattern.bytes, filling); }});
    }
    right &= run({"shared_store2", 1, WARP, 0, WARP, WARP, WORDS + WARP, "\"wavefronts\": 2, \"passes\": 1", {&out},
                  [&] { shared_store2<<<1, WARP>>>(out.data); }, &out,
                  [](uint32_t lane) { return lane % 2 == 0 ? lane / 2 : filling(lane); }});
    return right;
}

// Redundant loads by scope: thread, warp, block, grid.
static std::string redundant(uint32_t thread, uint32_t warp, uint32_t block, uint32_t grid) {
    return "\"redundant\": {\"thread\": " + std::to_string(thread) + ", \"warp\": " + std::to_string(warp) +
           ", \"block\": " + std::to_string(block) + ", \"grid\": " + std::to_string(grid) + "}";
}

static bool run_again(const Buffer &in, const Buffer &out) {
    Buffer scratch("scratch", made(WARP, in_word));
    bool right = run({"again_thread", 1, WARP, 2 * WARP, WARP, 0, 0, redundant(32, 32, 32, 32), {&in, &out},
                      [&] { again_thread<<<1, WARP>>>(in.data, out.data); }, &out,
                      [](uint32_t word) { return 2 * in_word(word); }});
    right &= run({"again_stored", 1, WARP, 2 * WARP, 2 * WARP, 0, 0, redundant(0, 0, 0, 0), {&scratch, &out},
                  [&] { again_stored<<<1, WARP>>>(scratch.data, out.data); }, &out,
                  [](uint32_t word) { return 2 * in_word(word) + 1; }});
    right &= run({"again_warp", 1, WARP, 2 * WARP, WARP, 0, 0, redundant(0, 32, 32, 32), {&in, &out},
                  [&] { again_warp<<<1, WARP>>>(in.data, out.data); }, &out,
                  [](uint32_t word) { return in_word(word) + in_word(WARP - 1 - word); }});
    right &= run({"again_block", 1, 2 * WARP, 4 * WARP, 2 * WARP, 0, 0, redundant(0, 0, 64, 64), {&in, &out},
                  [&] { again_block<<<1, 2 * WARP>>>(in.data, out.data); }, &out,
                  [](uint32_t word) { return in_word(word) + in_word(word ^ WARP); }});
    right &= run({"again_grid", 4, WARP, 4 * WARP, 4 * WARP, 0, 0, redundant(0, 0, 0, 96), {&in, &out},
                  [&] { again_grid<<<4, WARP>>>(in.data, out.data); }, &out,
                  [](uint32_t word) { return in_word(word % WARP); }});
    return right;
}

static bool run_blocks(const Buffer &in, const Buffer &out) {
    Buffer lines("lines", made(LINES * WARP, in_word));
    bool right = run({"halo", HALO_BLOCKS, HALO_BLOCK, HALO_BLOCKS * (HALO_BLOCK + HALO), HALO_BLOCKS * HALO_BLOCK, 0, 0,
                      "\"footprint_sectors\": 40, \"union_sectors\": 34, \"shared_sectors\": 6", {&in, &out},
                      [&] { halo<<<HALO_BLOCKS, HALO_BLOCK>>>(in.data, out.data); }, &out, [](uint32_t word) {
                          uint32_t next = word % HALO_BLOCK < HALO ? in_word(word + HALO_BLOCK) : 0;
                          return in_word(word) + next;
                      }});
    right &= run({"loop_lines", 1, WARP, 2 * LINES * WARP, WARP, 0, 0, "\"lines\": 64, \"line_distance\": 63",
                  {&lines, &out}, [&] { loop_lines<<<1, WARP>>>(lines.data, out.data); }, &out, [](uint32_t lane) {
                      uint32_t sum = 0;
                      for (uint32_t line = 0; line < LINES; line++) sum += 2 * in_word(line * WARP + lane);
                      return sum;
                  }});
    return right;
}

static bool run_uses(const Buffer &out) {
    Buffer sparse("sparse", made(SPARSE, in_word)), between("between", std::vector<uint32_t>(WARP));
    Buffer sums("sums", made(WARP, in_word));
    bool right = run({"part", 1, TOUCHED, TOUCHED, TOUCHED, 0, 0, "\"touched_share\": 0.25", {&sparse, &out},
                      [&] { part<<<1, TOUCHED>>>(sparse.data, out.data); }, &out, in_word});
    right &= run({"produce", 1, WARP, 0, WARP, 0, 0, "\"written\": \"between\"", {&between},
                  [&] { produce<<<1, WARP>>>(between.data); }, &between, [](uint32_t word) { return word * 3; }});
    right &= run({"consume", 1, WARP, WARP, WARP, 0, 0, "\"read\": \"between\"", {&between, &out},
                  [&] { consume<<<1, WARP>>>(between.data, out.data); }, &out, [](uint32_t word) { return word * 3; }});
    right &= run({"accumulate", 1, WARP, WARP, WARP, 0, 0, "\"read_before_written\": \"sums\"", {&sums},
                  [&] { accumulate<<<1, WARP>>>(sums.data); }, &sums, [](uint32_t word) { return in_word(word) + 1; }});
    return right;
}

int main(int count, char **) {
    if (count > 1) {
        fprintf(stderr, "usage: access_truth\n");
        return 2;
    }
    Buffer in("in", made(WORDS, in_word)), out("out", std::vector<uint32_t>(WORDS));
    bool right = run_global(in, out);
    right &= run_shared(out);
    right &= run_again(in, out);
    right &= run_blocks(in, out);
    right &= run_uses(out);
    return right ? 0 : 1;
}
