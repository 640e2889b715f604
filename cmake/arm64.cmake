# arm64.cmake - the toolchain of ./dev arm64: zig as C compiler for arm64 with glibc 2.28, and qemu to run what it makes. The folder SK_ZIG_TOOLS, in
# the environment, has zig's commands under the names that CMake calls (./dev writes them).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER $ENV{SK_ZIG_TOOLS}/cc)
set(CMAKE_AR $ENV{SK_ZIG_TOOLS}/ar)
set(CMAKE_RANLIB $ENV{SK_ZIG_TOOLS}/ranlib)
find_program(qemu qemu-aarch64-static REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR ${qemu} -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY NEVER) # libraries of this machine are of another kind
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE NEVER)
set(CMAKE_DISABLE_FIND_PACKAGE_CURL ON)
