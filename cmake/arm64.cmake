# arm64.cmake - the toolchain of ./dev arm64: zig for arm64 with glibc 2.28 (zig.cmake), and qemu to run what it makes.
include(${CMAKE_CURRENT_LIST_DIR}/zig.cmake)
find_program(qemu qemu-aarch64-static REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR ${qemu} -L /usr/aarch64-linux-gnu)
