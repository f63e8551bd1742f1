"""Runs one recorded launch: at the addresses that it had, with the memory that it read, and compares what it wrote.

    python replay.py [REPEATS]

The same folder has kernel.cubin, launch.json (the launch), pages.bin and contents.bin (its memory). It needs a GPU of the
architecture that the cubin is for, its driver, and no package. numpy makes the comparison faster. Exit code 0: every
replay wrote what was recorded. 1: some did not, as sums by atomics may, whose order differs. 2: it could not be run.
Written by stallmap-record. Change it as you like.

In a session of Python, memory becomes tensors that share it:

    import replay
    launch = replay.Launch()
    launch.run()
    import torch
    rows = torch.as_tensor(launch.array(0x7F0000000000, (1024, 16), "<f4"), device="cuda")
"""

import ctypes
import json
import pathlib
import statistics
import struct
import sys

try:
    import numpy
except ImportError:
    numpy = None

HERE = pathlib.Path(__file__).resolve().parent
PAGE = 4096
GRANULE, ALIGNMENT, LEAST = 2 << 20, 32 << 20, 1 << 30

# BLAKE3 of one page: four chunks of 16 blocks, two parents, the root. Constants and flags are its specification's.
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
MASK = 0xFFFFFFFF


def rotate(x, count):
    return (x >> count | x << (32 - count)) & MASK


def mix(v, a, b, c, d, x, y):
    v[a] = (v[a] + v[b] + x) & MASK
    v[d] = rotate(v[d] ^ v[a], 16)
    v[c] = (v[c] + v[d]) & MASK
    v[b] = rotate(v[b] ^ v[c], 12)
    v[a] = (v[a] + v[b] + y) & MASK
    v[d] = rotate(v[d] ^ v[a], 8)
    v[c] = (v[c] + v[d]) & MASK
    v[b] = rotate(v[b] ^ v[c], 7)


def compress(value, words, counter, flags, number):
    """Words are numbers, or arrays with one for each page. `number` makes such a word of a number."""
    v = value + [number(x) for x in [*IV[:4], counter, 0, 64, flags]]
    for _ in range(7):
        for i in range(4):
            mix(v, i, 4 + i, 8 + i, 12 + i, words[2 * i], words[2 * i + 1])
        for i in range(4):
            b, c, d = 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4
            mix(v, i, b, c, d, words[8 + 2 * i], words[9 + 2 * i])
        words = [words[i] for i in ORDER]
    return [v[i] ^ v[i + 8] for i in range(8)]


def hash_words(words, number):
    """The hash of pages of 1,024 words, as two words."""
    start = [number(x) for x in IV]
    chunks = []
    for chunk in range(4):
        value = start
        for block in range(16):
            flags = (CHUNK_START if block == 0 else 0) | (CHUNK_END if block == 15 else 0)
            at = 256 * chunk + 16 * block
            value = compress(value, words[at : at + 16], chunk, flags, number)
        chunks.append(value)
    parents = [compress(start, chunks[i] + chunks[i + 1], 0, PARENT, number) for i in (0, 2)]
    root = compress(start, parents[0] + parents[1], 0, PARENT | ROOT, number)
    return root[0], root[1]


def hash_pages(data):
    """The hash of each page of some bytes."""
    count = len(data) // PAGE
    if numpy is None:
        pages = (struct.unpack_from("<1024I", data, page * PAGE) for page in range(count))
        return [high << 32 | low for low, high in (hash_words(list(page), int) for page in pages)]
    words = numpy.frombuffer(data, dtype="<u4", count=count * 1024).reshape(count, 1024).T
    low, high = hash_words(list(words), lambda x: numpy.full(count, x, dtype=numpy.uint32))
    return [int(a) | int(b) << 32 for a, b in zip(low, high)]


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class AllocationProp(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_uint8 * 8),
    ]


class AccessDesc(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    ]


class Array:
    """Memory of the GPU for `torch.as_tensor`, `cupy.asarray` and others, without a copy."""

    def __init__(self, address, shape, type_text):
        self.__cuda_array_interface__ = {
            "shape": tuple(shape),
            "typestr": type_text,
            "data": (address, False),
            "version": 3,
        }


def aligned(data, alignment=64):
    """A buffer with these bytes, and its aligned address."""
    buffer = ctypes.create_string_buffer(len(data) + alignment)
    address = -(-ctypes.addressof(buffer) // alignment) * alignment
    ctypes.memmove(address, data, len(data))
    return buffer, address


class Failure(Exception):
    pass


class Launch:
    """The launch, its module and its memory. It uses the primary context, as PyTorch and CuPy do."""

    def __init__(self):
        self.launch = json.loads((HERE / "launch.json").read_text())
        words = (HERE / "pages.bin").read_bytes()
        self.pages = [struct.unpack_from("<4Q", words, at) for at in range(0, len(words), 32)]
        self.contents = (HERE / "contents.bin").read_bytes()
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", ctypes.c_uint(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.place()
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(self.module), (HERE / "kernel.cubin").read_bytes())
        name = bytes.fromhex(self.launch["kernel"])
        self.call("cuModuleGetFunction", ctypes.byref(self.function), self.module, name)
        # Maximum dynamic shared memory, larger clusters, share of shared memory. Older drivers lack some.
        attributes = [(8, self.launch["max_dynamic_shared_bytes"]), (14, 1), (9, self.launch["shared_carveout"])]
        for attribute, value in attributes:
            if value >= 0:
                self.driver.cuFuncSetAttribute(self.function, attribute, value)
        self.first, self.last = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(self.first), 0)
        self.call("cuEventCreate", ctypes.byref(self.last), 0)

    def call(self, function, *arguments):
        code = getattr(self.driver, function)(*arguments)
        if code:
            name = ctypes.c_char_p()
            self.driver.cuGetErrorName(code, ctypes.byref(name))
            raise Failure(f"{function}: {(name.value or b'unknown error').decode()} ({code})")

    def place(self):
        """Reserves and maps the spans that the pages lie in: at least a GiB, aligned to 32 MiB, because only for such
        does the driver honour the address."""
        addresses = [page[0] for page in self.pages]
        at, mapped = 0, None
        while at < len(addresses):
            begin = addresses[at] // ALIGNMENT * ALIGNMENT
            end, stop = begin + LEAST, at
            while stop < len(addresses) and addresses[stop] // ALIGNMENT * ALIGNMENT <= end:
                needed = (addresses[stop] // GRANULE + 1) * GRANULE
                if needed > end:
                    end = -(-needed // ALIGNMENT) * ALIGNMENT
                stop += 1
            address = ctypes.c_uint64()
            size, zero = ctypes.c_size_t(end - begin), ctypes.c_size_t(0)
            wanted = ctypes.c_uint64(begin)
            self.call("cuMemAddressReserve", ctypes.byref(address), size, zero, wanted, ctypes.c_uint64(0))
            if address.value != begin:
                raise Failure(f"the addresses from {begin:#x} on are taken in this process: run it again")
            for page in addresses[at:stop]:
                granule = page // GRANULE * GRANULE
                if granule != mapped:
                    self.map(granule)
                    mapped = granule
            at = stop

    def map(self, address):
        handle = ctypes.c_uint64()
        # Pinned memory of device 0, for reading and writing.
        properties = AllocationProp(type=1, location=Location(1, 0))
        access = AccessDesc(Location(1, 0), 3)
        size, zero = ctypes.c_size_t(GRANULE), ctypes.c_uint64(0)
        self.call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(properties), zero)
        address = ctypes.c_uint64(address)
        self.call("cuMemMap", address, size, ctypes.c_size_t(0), handle, zero)
        self.call("cuMemSetAccess", address, size, ctypes.byref(access), ctypes.c_size_t(1))

    def content(self, number, size):
        return self.contents[number * PAGE : number * PAGE + size]

    def write(self, address, data):
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

    def read(self, address, size):
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data.raw

    def symbol(self, symbol):
        """The address of a part of a variable."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        name = bytes.fromhex(symbol["name"])
        self.call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), self.module, name)
        return address.value + symbol["offset_bytes"]

    def fill(self):
        """Writes the memory that the launch read."""
        for address, number, _, _ in self.pages:
            self.write(address, self.content(number, PAGE))
        for symbol in self.launch["symbols"]:
            self.write(self.symbol(symbol), self.content(symbol["content"], symbol["size_bytes"]))

    def run(self):
        """Fills the memory and runs the launch once. Returns microseconds."""
        launch = self.launch
        parameters = bytes.fromhex(launch["parameters"])
        attributes = bytes.fromhex(launch["attributes"])
        buffer, address = aligned(parameters)
        attribute_buffer, attribute_address = aligned(attributes)
        size = ctypes.c_size_t(len(parameters))
        # Pointer and size of the parameters, and the end.
        extra = (ctypes.c_void_p * 5)(1, address, 2, ctypes.addressof(size), 0)
        config = LaunchConfig(
            (ctypes.c_uint * 3)(*launch["grid"]),
            (ctypes.c_uint * 3)(*launch["block"]),
            launch["dynamic_shared_bytes"],
            None,
            attribute_address,
            launch["attribute_count"],
        )
        self.fill()
        self.call("cuEventRecord", self.first, None)
        given = extra if parameters else None
        self.call("cuLaunchKernelEx", ctypes.byref(config), self.function, None, given)
        self.call("cuEventRecord", self.last, None)
        self.call("cuCtxSynchronize")
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), self.first, self.last)
        del buffer, attribute_buffer
        return milliseconds.value * 1e3

    def differences(self):
        """The addresses of pages, and the names of variables, that are not what they were after the launch."""
        places, data, expected = [], [], []
        for address, _, is_written, hash_after in self.pages:
            if is_written:
                places.append(hex(address))
                data.append(self.read(address, PAGE))
                expected.append(hash_after)
        for symbol in self.launch["symbols"]:
            if symbol["hash_after"] is not None:
                places.append(bytes.fromhex(symbol["name"]).decode(errors="replace"))
                data.append(self.read(self.symbol(symbol), symbol["size_bytes"]).ljust(PAGE, b"\0"))
                expected.append(int(symbol["hash_after"], 16))
        found = hash_pages(b"".join(data))
        return [place for place, a, b in zip(places, found, expected) if a != b]

    @staticmethod
    def array(address, shape, type_text):
        """Memory as an array of a shape, and of a type as numpy writes it: "<f4", "<f2", "<i8"."""
        return Array(address, shape, type_text)


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    try:
        launch = Launch()
        times, worst = [], 0
        for repeat in range(repeats):
            times.append(launch.run())
            different = launch.differences()
            worst |= len(different) > 0
            print(f"replay {repeat + 1}: {times[-1]:.1f} us, {len(different)} written pages differ from the recorded ones")
        if times:
            print(f"median: {statistics.median(times):.1f} us")
    except (Failure, OSError) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
