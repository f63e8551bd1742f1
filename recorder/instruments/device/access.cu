// The device side of access recording: called before every memory instruction of an instrumented kernel.
//
// One warp request becomes one record in a ring in pinned host memory: a header slot of 32 bytes and, where the lanes
// are irregular, each lane's distance from the first active one. The layout is `schema/src/capture/request.rs`, with the
// launch's tag in bits that it leaves free: launches of all streams share the ring.
//
// Protocol. `head` counts slots reserved since the start. A record's slots are head % slot_count and the following ones.
// A record is complete when the last word of its header is not 0. That word is written last. The host reads complete
// records in the order of their slots, sets those slots to 0, and publishes in `tail` (host memory) how many it has
// read. A writer waits until its slots lie less than one ring ahead of it. A writer that waits too long for a host that
// reads nothing declares the ring abandoned: from then on writers do not wait and nothing is read.
//
// A launch may have its requests counted too, all of them, by instruction and block of memory, and by instruction and
// shape, in a hash table in device memory (`struct Counts`). Then only some blocks write records, up to a limit, and
// nothing is lost uncounted.
//
// Compiled at run time for the GPU at hand, so it includes no header.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

struct Ring {
    u64 head;                // slots reserved
    u64 tail_seen;           // a lower bound of *tail. From ABANDONED on writers do not wait
    u64 slot_count;          // slots in the ring
    u64 patience_ns;         // how long a writer waits for a host that reads nothing
    uint4 *slots;            // host memory: two uint4 a slot
    volatile u64 *tail;      // host memory
    volatile u64 *abandoned; // host memory: 1 once a writer has given up
    u32 drops;               // 1: a request that finds no room is lost; 0: it waits
    u32 padding;
};

// One kernel node of a graph, in a hash table by the grid's number.
struct Node {
    u64 grid;         // 0: no node
    u32 offset;       // its tag is the launch's plus this
    u32 block_stride; // as in Launch; 0: nothing of it is recorded
    u32 position;     // its ordinal is the launch's plus this
    u32 padding;
};

// A block of memory: from its first address to past its last.
struct Range {
    u64 start;
    u64 end;
};

// Sums over the requests of one instruction of one launch to one block of memory, or with one shape. Each is a part:
// several entries with other copies of the place have the rest.
struct Count {
    u64 place;    // pc, kind << 48, space << 52, copy << 54, and bit 63. 0: free
    u64 owner;    // the launch's ordinal << 32, and the range's position + 1, NO_RANGE, or a shape. 0: being claimed
    u64 requests;
    u64 shared;   // of these, requests whose lowest lane lies in another range. Of a shape: lines
    u64 lanes;
    u64 sectors;
    u64 unique_bytes;
    u64 ideal_sectors;
    u64 not_low;  // the lowest address, inverted: all fields begin as 0
    u64 end;      // past the highest byte
};

struct Counts {
    Count *entries;
    u64 mask;             // entries, less 1
    u64 claimed;          // entries in use
    u64 uncounted;        // requests that found no entry
    u64 shapeless;        // requests whose shape found no entry
    volatile u64 *seen;   // host memory: `claimed`, about
};

// One launch, or one launch of a graph: what `userdata` points to.
struct Launch {
    Ring *ring;
    const Node *nodes;   // null but for graphs
    u64 lost_requests;   // requests that found no room (when_full = drop) or lie in blocks that are not recorded
    u64 lost_lanes;      // their lane accesses
    Counts *counts;      // null where requests are not counted
    const Range *ranges; // sorted, without overlaps
    u32 range_count;
    u32 range_offset;    // position of the first range among all ranges
    u32 ordinal;
    u32 record_limit;    // requests that may write records where requests are counted
    u32 records;         // those that did, or tried to
    u32 tag;
    u32 node_mask;       // nodes in the table, less 1
    u32 block_stride;    // only blocks whose linear index (its low 32 bits) is a multiple of this are recorded
};

static const u64 ABANDONED = 1ull << 62;

enum { READ = 1, WRITE = 2, ATOMIC = 4, PREFETCH = 8 };
enum { REGULAR = 0, OFFSETS_32 = 1, OFFSETS_64 = 2, COMPLETE = 128 };
enum { GLOBAL = 0, GLOBAL_ASYNC = 1, SHARED = 2, LOCAL = 3 };

// Patterns of lanes: `LanePattern` in `schema/src/word.rs`.
enum { BROADCAST = 0, UNIT = 1, STRIDED = 2, TILED = 3, GATHER = 4 };

static const u32 NO_RANGE = 0xffffffff;
// A shape: this bit, access_bytes << 16, pattern << 8, misaligned << 7, sectors.
static const u32 SHAPE = 0x80000000;
// Entries of each place, for the multiprocessors to share: one would be hit by all of them at once.
static const u32 COPIES = 4;

static __device__ __forceinline__ u32 lane_id() { u32 r; asm("mov.u32 %0, %%laneid;" : "=r"(r)); return r; }

static __device__ __forceinline__ u64 linear_block() {
    return blockIdx.x + (u64)gridDim.x * (blockIdx.y + (u64)gridDim.y * blockIdx.z);
}

static __device__ __forceinline__ u32 warp_in_block() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) >> 5;
}

static __device__ __forceinline__ u64 nanoseconds() { u64 r; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(r)); return r; }

static __device__ __forceinline__ u64 grid_number() { u64 r; asm volatile("mov.u64 %0, %%gridid;" : "=l"(r)); return r; }

// Waits until `slots` slots from `first` on may be overwritten.
static __device__ __forceinline__ void wait_for_room(Ring *ring, u64 first, u32 slots) {
    u64 needed = first + slots;
    if (needed <= *(volatile u64 *)&ring->tail_seen + ring->slot_count) return;
    u64 seen = 0, since = nanoseconds();
    for (;;) {
        u64 tail = *ring->tail;
        if (needed <= tail + ring->slot_count) { atomicMax(&ring->tail_seen, tail); return; }
        if (*(volatile u64 *)&ring->tail_seen >= ABANDONED) return;
        if (tail != seen) { seen = tail; since = nanoseconds(); }
        if (nanoseconds() - since > ring->patience_ns) {
            atomicMax(&ring->tail_seen, ABANDONED);
            *ring->abandoned = 1;
            return;
        }
        __nanosleep(2000);
    }
}

// Reserves slots. False where there is no room and requests are dropped.
static __device__ __forceinline__ bool reserve(Ring *ring, u32 slots, u64 *first) {
    if (!ring->drops) {
        *first = atomicAdd(&ring->head, (u64)slots);
        wait_for_room(ring, *first, slots);
        return true;
    }
    u64 head = *(volatile u64 *)&ring->head;
    for (;;) {
        u64 needed = head + slots;
        if (needed > *(volatile u64 *)&ring->tail_seen + ring->slot_count) {
            u64 tail = *ring->tail;
            atomicMax(&ring->tail_seen, tail);
            if (needed > tail + ring->slot_count) return false;
        }
        u64 found = atomicCAS(&ring->head, head, needed);
        if (found == head) { *first = head; return true; }
        head = found;
    }
}

// A grid that runs: one that the host does not know, because the program launched it from the device; one of which
// nothing is recorded; one that is recorded.
enum { UNKNOWN = 0, SKIPPED = 1, RECORDED = 2 };

// The grid that runs: its tag, its ordinal, and which of its blocks are recorded.
static __device__ __forceinline__ int identify(const Launch *launch, u32 *tag, u32 *ordinal, u32 *block_stride) {
    *tag = launch->tag;
    *ordinal = launch->ordinal;
    *block_stride = launch->block_stride;
    if (!launch->nodes) return RECORDED;
    u64 grid = grid_number();
    for (u32 at = (u32)grid & launch->node_mask;; at = (at + 1) & launch->node_mask) {
        u64 found = launch->nodes[at].grid;
        if (found == grid) {
            *tag = (launch->tag + launch->nodes[at].offset) & 0x7fff;
            *ordinal = launch->ordinal + launch->nodes[at].position;
            *block_stride = launch->nodes[at].block_stride;
            return *block_stride ? RECORDED : SKIPPED;
        }
        if (!found) return UNKNOWN;
    }
}

static __device__ __forceinline__ u64 broadcast(u32 mask, u64 value, u32 lane) {
    u32 low = __shfl_sync(mask, (u32)value, lane);
    u32 high = __shfl_sync(mask, (u32)(value >> 32), lane);
    return (u64)high << 32 | low;
}

static __device__ __forceinline__ u32 multiprocessor() { u32 r; asm("mov.u32 %0, %%smid;" : "=r"(r)); return r; }

// Position of the last range that begins at or below an address, or -1.
static __device__ __forceinline__ int range_below(const Launch *launch, u64 address) {
    int low = -1, high = (int)launch->range_count;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (launch->ranges[middle].start <= address) low = middle; else high = middle;
    }
    return low;
}

// The entry of a place and an owner, claimed if it is new. Null where the table has no room near its position.
static __device__ __forceinline__ Count *entry_of(Counts *counts, u64 place, u64 owner) {
    u64 hash = (place ^ owner * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
    for (u32 step = 0; step < 256; step++) {
        Count *entry = &counts->entries[(hash + step) & counts->mask];
        u64 found = *(volatile u64 *)&entry->place;
        if (!found) found = atomicCAS(&entry->place, 0ull, place);
        if (!found) {
            atomicExch(&entry->owner, owner);
            *counts->seen = atomicAdd(&counts->claimed, 1ull) + 1;
            return entry;
        }
        if (found != place) continue;
        // The owner comes right after the place, from a lane of another warp.
        u64 known;
        while (!(known = *(volatile u64 *)&entry->owner)) {}
        if (known == owner) return entry;
    }
    return 0;
}

// Units of 1 << `shift` bytes, and bytes, that the lanes of `members` touch, each once. Called by these lanes only.
static __device__ __forceinline__ void measure(u32 members, u32 lane, u64 address, u32 bytes, u32 shift, u32 *units,
                                               u32 *unique) {
    u32 below = members & ((1u << lane) - 1);
    bool is_plain = bytes <= 32 && !(bytes & (bytes - 1)) && !(address & (bytes - 1));
    if (__all_sync(members, is_plain)) {
        // Lanes access the same bytes, or none in common.
        bool is_new = !(__match_any_sync(members, address) & below);
        bool opens = !(__match_any_sync(members, address >> shift) & below);
        *unique = __popc(__ballot_sync(members, is_new)) * bytes;
        *units = __popc(__ballot_sync(members, opens));
        return;
    }
    // Intervals in the order of their beginnings: each adds what lies past all those before it.
    u64 first = address >> shift, last = (address + bytes - 1) >> shift;
    u64 covered = 0, covered_unit = 0;
    for (u32 rest = members; rest; rest &= rest - 1) {
        u32 other = __ffs(rest) - 1;
        u64 theirs = broadcast(members, address, other);
        if (theirs < address || (theirs == address && other < lane)) {
            u64 end = theirs + bytes, unit = ((end - 1) >> shift) + 1;
            covered = end > covered ? end : covered;
            covered_unit = unit > covered_unit ? unit : covered_unit;
        }
    }
    u64 from = covered > address ? covered : address;
    u64 from_unit = covered_unit > first ? covered_unit : first;
    u32 new_bytes = address + bytes > from ? (u32)(address + bytes - from) : 0;
    u32 new_units = last + 1 > from_unit ? (u32)(last + 1 - from_unit) : 0;
    *unique = *units = 0;
    for (u32 rest = members; rest; rest &= rest - 1) {
        *unique += __shfl_sync(members, new_bytes, __ffs(rest) - 1);
        *units += __shfl_sync(members, new_units, __ffs(rest) - 1);
    }
}

// The pattern of the lanes of a request, as `class` in `analyzer/engine/src/memory/shape.rs`. Lanes are at equal distances if
// their numbers give their addresses (regular ones, by `stride`), or if each active lane is as far from the one before.
static __device__ __forceinline__ u32 pattern(u32 mask, u32 lane, u64 address, u32 bytes, bool regular, long long stride) {
    u32 lanes = __popc(mask), ones = mask >> (__ffs(mask) - 1);
    bool is_unit = regular && (stride < 0 ? -stride : stride) == bytes;
    if (lanes < 2 || (regular && !stride)) return BROADCAST;
    if (is_unit) return UNIT;
    if (regular && !(ones & (ones + 1))) return STRIDED;
    u32 below = mask & ((1u << lane) - 1), others = mask & (mask - 1);
    u64 before = broadcast(mask, address, below ? 31 - __clz(below) : lane);
    u64 distance = address - before;
    // All lanes must call this. The first one has no distance.
    u32 same = __match_any_sync(mask, distance) & others & below;
    u32 different = __popc(__ballot_sync(mask, below && !same));
    long long equal = (long long)broadcast(mask, distance, __ffs(others) - 1);
    if (different == 1 && (equal < 0 ? -equal : equal) == bytes) return UNIT;
    if (regular) return STRIDED;
    if (different == 1) return equal ? STRIDED : BROADCAST;
    return different * 4 <= lanes ? TILED : GATHER;
}

// The place of an instruction in the table, in the copy of this multiprocessor.
static __device__ __forceinline__ u64 own_copy(u64 place) { return place | (u64)(multiprocessor() & (COPIES - 1)) << 54; }

// Counts a request in the entry of its shape. `sectors` and `unique` are of all its lanes.
static __device__ __forceinline__ void count_shape(Launch *launch, u32 ordinal, u64 place, u64 address, u32 bytes, u32 mask,
                                                   bool regular, int stride, u32 sectors, u32 unique) {
    u32 lane = lane_id(), leader = __ffs(mask) - 1, last = 31 - __clz(mask);
    u32 class_ = pattern(mask, lane, address, bytes, regular, stride);
    u64 from = broadcast(mask, address, leader), to = broadcast(mask, address, last);
    u64 low = to < from ? to : from, high = to < from ? from : to;
    u32 lines, lanes = __popc(mask);
    if (class_ == UNIT && high - low + bytes == unique) {
        // No gaps between the lanes.
        lines = (u32)(((low + unique - 1) >> 7) - (low >> 7) + 1);
    } else {
        measure(mask, lane, address, bytes, 7, &lines, &unique);
    }
    if (lane != leader) return;
    u32 is_misaligned = class_ == UNIT && (low & 31);
    u32 shape = SHAPE | bytes << 16 | class_ << 8 | is_misaligned << 7 | (sectors < 127 ? sectors : 127);
    Count *entry = entry_of(launch->counts, own_copy(place), (u64)ordinal << 32 | shape);
    if (!entry) {
        atomicAdd(&launch->counts->shapeless, 1ull);
        return;
    }
    atomicAdd(&entry->requests, 1ull);
    atomicAdd(&entry->shared, (u64)lines);
    atomicAdd(&entry->lanes, (u64)lanes);
    atomicAdd(&entry->unique_bytes, (u64)unique);
    atomicAdd(&entry->ideal_sectors, (u64)((unique + 31) / 32));
}

// Counts a request in the entries of the blocks of memory that its lanes meet, and in that of its shape.
static __device__ __forceinline__ void count(Launch *launch, u32 ordinal, u64 place, u64 address, u32 bytes, u32 mask,
                                             bool has_ranges, bool regular, int stride) {
    u32 lane = lane_id();
    u32 sectors = 0, unique = 0;
    bool is_one_part = false;
    for (u32 rest = mask; rest;) {
        u32 leader = __ffs(rest) - 1;
        u64 at = broadcast(mask, address, leader);
        u64 start = 0, end = ~0ull;
        u32 range = NO_RANGE;
        if (has_ranges) {
            int below = range_below(launch, at);
            if (below >= 0 && at < launch->ranges[below].end) {
                start = launch->ranges[below].start;
                end = launch->ranges[below].end;
                range = launch->range_offset + below + 1;
            } else {
                if (below >= 0) start = launch->ranges[below].end;
                if (below + 1 < (int)launch->range_count) end = launch->ranges[below + 1].start;
            }
        }
        bool is_member = (rest >> lane & 1) && address >= start && address < end;
        u32 members = __ballot_sync(mask, is_member);
        rest &= ~members;
        is_one_part = members == mask;
        if (!is_member) continue;

        u32 lanes = __popc(members);
        u32 ones = members >> leader;
        if (regular && stride == (int)bytes && !(ones & (ones + 1))) {
            unique = lanes * bytes;
            sectors = (u32)(((at + unique - 1) >> 5) - (at >> 5) + 1);
        } else {
            measure(members, lane, address, bytes, 5, &sectors, &unique);
        }
        u64 entry_bits = 0;
        if (lane == leader) {
            Count *entry = entry_of(launch->counts, own_copy(place), (u64)ordinal << 32 | range);
            entry_bits = (u64)entry;
            if (!entry) {
                atomicAdd(&launch->counts->uncounted, 1ull);
            } else {
                atomicAdd(&entry->requests, 1ull);
                if (leader != __ffs(mask) - 1) atomicAdd(&entry->shared, 1ull);
                atomicAdd(&entry->lanes, (u64)lanes);
                atomicAdd(&entry->sectors, (u64)sectors);
                atomicAdd(&entry->unique_bytes, (u64)unique);
                atomicAdd(&entry->ideal_sectors, (u64)((unique + 31) / 32));
            }
        }
        Count *entry = (Count *)broadcast(members, entry_bits, leader);
        // Of lanes in a row, only those at the ends can have the lowest and the highest address.
        bool is_end = lane == leader || !(members >> lane >> 1);
        if (entry && (is_end || !regular)) {
            if (~address > *(volatile u64 *)&entry->not_low) atomicMax(&entry->not_low, ~address);
            if (address + bytes > *(volatile u64 *)&entry->end) atomicMax(&entry->end, address + bytes);
        }
    }
    __syncwarp(mask);
    if (!is_one_part) measure(mask, lane, address, bytes, 5, &sectors, &unique);
    count_shape(launch, ordinal, place, address, bytes, mask, regular, stride, sectors, unique);
}

static __device__ __forceinline__ void record(void *userdata, u64 pc, u64 address, u32 bytes, u32 flags, u32 space) {
    Launch *launch = (Launch *)userdata;
    if (!launch) return;
    Ring *ring = launch->ring;
    u32 mask = __activemask();
    u32 lane = lane_id();
    u32 first_lane = __ffs(mask) - 1;
    u64 block = linear_block();
    u32 tag, ordinal, block_stride;

    int grid = identify(launch, &tag, &ordinal, &block_stride);
    if (grid == SKIPPED) return;
    bool is_left_out = grid == UNKNOWN || (block_stride > 1 && (u32)block % block_stride);
    bool counts = grid == RECORDED && launch->counts;
    if (is_left_out && !counts) {
        if (lane == first_lane) {
            atomicAdd(&launch->lost_requests, 1ull);
            atomicAdd(&launch->lost_lanes, (u64)__popc(mask));
        }
        return;
    }

    // Regular: one stride from lane to lane, also across lanes that are not active.
    u64 base = broadcast(mask, address, first_lane);
    u32 others = mask & (mask - 1);
    u32 second_lane = others ? __ffs(others) - 1 : first_lane;
    long long distance = (long long)(broadcast(mask, address, second_lane) - base);
    int gap = (int)(second_lane - first_lane);
    bool fits = distance >= -0x7fffffffll && distance <= 0x7fffffffll;
    int stride = gap && fits ? (int)distance / gap : 0;
    bool regular = __all_sync(mask, fits && address == base + (long long)stride * (int)(lane - first_lane));

    if (counts) {
        u64 place = (pc & 0xffffffffffffull) | (u64)(flags & 15) << 48 | (u64)space << 52 | 1ull << 63;
        count(launch, ordinal, place, address, bytes, mask, space <= GLOBAL_ASYNC, regular, stride);
        u32 is_over = lane == first_lane && !is_left_out && atomicAdd(&launch->records, 1u) >= launch->record_limit;
        if (is_left_out || __shfl_sync(mask, is_over, first_lane)) return;
    }

    u32 encoding = REGULAR;
    u32 slots = 1;
    if (!regular) {
        // Distances are signed and start at the first active lane: the host finds the lowest address.
        long long away = (long long)(address - base);
        bool wide = __any_sync(mask, away != (int)away);
        encoding = wide ? OFFSETS_64 : OFFSETS_32;
        slots = 1 + (__popc(mask) * (wide ? 8 : 4) + 31) / 32;
        stride = 0;
    }

    u64 first = 0;
    u32 room = 1;
    if (lane == first_lane) {
        room = reserve(ring, slots, &first);
        if (!room) {
            atomicAdd(&launch->lost_requests, 1ull);
            atomicAdd(&launch->lost_lanes, (u64)__popc(mask));
        }
    }
    if (ring->drops && !__shfl_sync(mask, room, first_lane)) return;
    first = broadcast(mask, first, first_lane);

    u64 wrap = ring->slot_count - 1;
    if (encoding != REGULAR) {
        u32 rank = __popc(mask & ((1u << lane) - 1));
        if (encoding == OFFSETS_32) {
            u32 *slot = (u32 *)&ring->slots[((first + 1 + rank / 8) & wrap) * 2];
            slot[rank % 8] = (u32)(address - base);
        } else {
            u64 *slot = (u64 *)&ring->slots[((first + 1 + rank / 4) & wrap) * 2];
            slot[rank % 4] = address - base;
        }
    }
    uint4 *slot = &ring->slots[(first & wrap) * 2];
    if (lane == first_lane) {
        slot[0] = make_uint4((u32)base, (u32)(base >> 32), (u32)pc,
                             (u32)(pc >> 32 & 0xffff) | bytes << 16 | (flags & 15) << 24 | (tag & 15) << 28);
        *(uint2 *)&slot[1] = make_uint2(mask, (u32)stride);
        ((u32 *)&slot[1])[2] = (u32)block;
    }
    __threadfence_system();
    if (encoding != REGULAR) __syncwarp(mask);
    if (lane == first_lane) {
        u32 marks = COMPLETE | encoding | tag >> 10 << 2;
        ((volatile u32 *)&slot[1])[3] =
            (u32)(block >> 32 & 0xff) | warp_in_block() << 8 | space << 16 | (tag >> 4 & 63) << 18 | marks << 24;
    }
}

static __device__ __forceinline__ u32 access_flags(u32 flags) {
    bool atomic = (flags & 4) || (flags & 3) == 3;
    return (flags & 3) | (atomic ? ATOMIC : 0) | (flags & PREFETCH);
}

#define PATCH extern "C" __device__ __noinline__ STALLMAP_KEEP int

PATCH stallmap_global(void *userdata, u64 pc, void *address, u32 bytes, u32 flags, const void *) {
    record(userdata, pc, (u64)address, bytes, access_flags(flags), GLOBAL);
    return 0;
}

PATCH stallmap_shared(void *userdata, u64 pc, void *address, u32 bytes, u32 flags, const void *) {
    record(userdata, pc, (u64)address, bytes, access_flags(flags), SHARED);
    return 0;
}

PATCH stallmap_local(void *userdata, u64 pc, void *address, u32 bytes, u32 flags, const void *) {
    record(userdata, pc, (u64)address, bytes, access_flags(flags), LOCAL);
    return 0;
}

static __device__ __forceinline__ void record_copy_source(void *userdata, u64 pc, void *source, u32 bytes) {
    // A copy whose source is masked off reads nothing. Compilers give such a lane no address.
    if (bytes && source) record(userdata, pc, (u64)source, bytes, READ, GLOBAL_ASYNC);
}

PATCH stallmap_async(void *userdata, u64 pc, void *source, u32, u32 bytes) {
    record_copy_source(userdata, pc, source, bytes);
    return 0;
}

// The same where shared memory is recorded too: the copy writes it, zeros where the source is masked off.
PATCH stallmap_async_shared(void *userdata, u64 pc, void *source, u32 target, u32 bytes) {
    record_copy_source(userdata, pc, source, bytes);
    if (bytes) record(userdata, pc, target, bytes, WRITE, SHARED);
    return 0;
}
