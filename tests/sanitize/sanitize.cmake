# SPDX-License-Identifier: Apache-2.0
# The runtime and the call frame with sanitizers, and what fuzzes them. `make sanitize` builds this
# and runs the C++ tests with it.
set(address_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
set(thread_flags -fsanitize=thread)
set(sanitize_flags ${${GRAPHFFI_SANITIZE}_flags})
if(NOT sanitize_flags)
  message(FATAL_ERROR "GRAPHFFI_SANITIZE: expected address or thread, got ${GRAPHFFI_SANITIZE}")
endif()
add_compile_options(-O1 -g1 -fno-omit-frame-pointer ${sanitize_flags})
add_link_options(${sanitize_flags})

find_package(Threads REQUIRED)
add_subdirectory(csrc/runtime)
set_target_properties(tvm_ffi PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
add_subdirectory(csrc/call)
if(GRAPHFFI_SANITIZE STREQUAL "address")
  add_subdirectory(tests/fuzz)
endif()
