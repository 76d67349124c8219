# The place of the environment that makes what is distributed, and its compiler; sourced by the
# scripts that use them.
release_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$release_folder/../python_environment.sh"
release_packages=$release_folder/packages.txt
release_place=$(environment_place release)
# The oldest C library that a wheel runs with: the compilers zig-cc and zig-c++, which are Clang
# with the C libraries of many years, compile for it.
release_target=x86_64-linux-gnu.2.28
release_platform=manylinux_2_28_x86_64
