# zig.cmake - the toolchain of builds for other machines and other C libraries: zig as C compiler, which has the headers and start files of each version
# of glibc and of musl, for each kind of machine. The environment says what it builds for, in zig's words (SK_ZIG_TARGET: aarch64-linux-gnu.2.28,
# x86_64-linux-musl ...), and where zig's commands are under the names that CMake calls (SK_ZIG_TOOLS: zig_tools of ./dev writes them).
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "$ENV{SK_ZIG_TARGET}")
set(CMAKE_C_COMPILER $ENV{SK_ZIG_TOOLS}/cc)
set(CMAKE_AR $ENV{SK_ZIG_TOOLS}/ar)
set(CMAKE_RANLIB $ENV{SK_ZIG_TOOLS}/ranlib)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY NEVER) # libraries of this machine are of another kind
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE NEVER)
set(CMAKE_DISABLE_FIND_PACKAGE_CURL ON)
