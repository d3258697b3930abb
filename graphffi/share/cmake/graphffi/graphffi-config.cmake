# SPDX-License-Identifier: Apache-2.0
# graphffi's headers and its bundled runtime, for libraries of kernels:
#
#     find_package(graphffi CONFIG REQUIRED)  # cmake -Dgraphffi_ROOT=$(graphffi config --cmakedir)
#     graphffi_add_kernels(mykernels kernels.cc OPS)
#
# scikit-build-core finds the package by itself, where graphffi is installed.
include("${CMAKE_CURRENT_LIST_DIR}/../tvm_ffi/tvm_ffi-config.cmake")
if(NOT TARGET graphffi::headers)
  add_library(graphffi::headers ALIAS tvm_ffi::header)
  add_library(graphffi::runtime ALIAS tvm_ffi::shared)
endif()
set(_graphffi_check_ops "${CMAKE_CURRENT_LIST_DIR}/check_ops.cmake")

# graphffi_add_kernels(<name> <sources>... [OPS])
#
# A library lib<name>.so of kernels, from C++, C and CUDA sources: with the signatures of what it
# exports, without other symbols, for any runtime (it has no path of one). With OPS, the library is to
# describe its ops (GRAPHFFI_EXPORT_OP), for graphffi.load_ops; one that describes none is refused.
function(graphffi_add_kernels name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "OPS" "" "")
  set(sources ${ARG_UNPARSED_ARGUMENTS})
  if(NOT sources)
    message(FATAL_ERROR "graphffi_add_kernels(${name}): expected sources, got none")
  endif()
  if("${sources}" MATCHES "\\.cu(;|$)" AND NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "graphffi_add_kernels(${name}): expected the language CUDA for .cu sources, "
                        "got none; call enable_language(CUDA)")
  endif()
  add_library(${name} SHARED ${sources})
  target_link_libraries(${name} PRIVATE graphffi::headers graphffi::runtime)
  target_compile_definitions(${name} PRIVATE TVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1)
  set_target_properties(
    ${name}
    PROPERTIES CXX_STANDARD_REQUIRED ON
               CXX_VISIBILITY_PRESET hidden
               CUDA_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON
               SKIP_BUILD_RPATH ON
               INSTALL_RPATH "")
  if(ARG_OPS)
    add_custom_command(
      TARGET ${name}
      POST_BUILD
      COMMAND ${CMAKE_COMMAND} "-DLIBRARY=$<TARGET_FILE:${name}>" -P "${_graphffi_check_ops}"
      VERBATIM)
  endif()
endfunction()
