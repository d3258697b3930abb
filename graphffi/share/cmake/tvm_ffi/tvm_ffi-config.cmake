# SPDX-License-Identifier: Apache-2.0
# graphffi's headers and bundled runtime under TVM FFI's names, for projects that look for that:
# put the folder of the Python package graphffi on CMAKE_PREFIX_PATH, or give this file's folder as
# tvm_ffi_ROOT.
get_filename_component(_tvm_ffi_package "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(tvm_ffi_INCLUDE_DIR "${_tvm_ffi_package}/include")
if(NOT IS_DIRECTORY "${tvm_ffi_INCLUDE_DIR}") # a source tree
  get_filename_component(tvm_ffi_INCLUDE_DIR "${_tvm_ffi_package}/../csrc/include" ABSOLUTE)
endif()
set(tvm_ffi_DLPACK_INCLUDE_DIR "${tvm_ffi_INCLUDE_DIR}")
set(tvm_ffi_LIB_FILES "${_tvm_ffi_package}/_lib/libtvm_ffi.so")

if(NOT TARGET tvm_ffi::header)
  add_library(tvm_ffi::header INTERFACE IMPORTED)
  add_library(tvm_ffi::shared SHARED IMPORTED)
  set_target_properties(tvm_ffi::shared PROPERTIES IMPORTED_LOCATION "${tvm_ffi_LIB_FILES}"
                                                   IMPORTED_SONAME libtvm_ffi.so)
  foreach(_tvm_ffi_target tvm_ffi::header tvm_ffi::shared)
    set_target_properties(
      ${_tvm_ffi_target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${tvm_ffi_INCLUDE_DIR}"
                                    INTERFACE_COMPILE_FEATURES cxx_std_17)
  endforeach()
endif()

# Paths in a library's debug information and error texts begin below prefix_path.
function(tvm_ffi_add_prefix_map target prefix_path)
  target_compile_options(${target} PRIVATE "-ffile-prefix-map=${prefix_path}/=")
endfunction()

# tvm_ffi_configure_target(<target> [LINK_HEADER ON|OFF] [LINK_SHARED ON|OFF] [STUB_DIR <folder>
# [STUB_INIT ON|OFF] [STUB_PKG <name>] [STUB_PREFIX <prefix>] [STUB_TARGET <language>]])
#
# Has a library use TVM FFI. STUB_DIR asks for Python stubs after each build, which apache-tvm-ffi's
# generator writes: without that package there are none. DEBUG_SYMBOL and MSVC_FLAGS are of other
# platforms.
function(tvm_ffi_configure_target target)
  if(NOT TARGET "${target}")
    message(FATAL_ERROR "tvm_ffi_configure_target: expected a target, got '${target}'")
  endif()
  cmake_parse_arguments(
    PARSE_ARGV 1 ARG ""
    "LINK_SHARED;LINK_HEADER;DEBUG_SYMBOL;MSVC_FLAGS;STUB_INIT;STUB_DIR;STUB_PKG;STUB_PREFIX;STUB_TARGET"
    "")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tvm_ffi_configure_target(${target}): expected known arguments, got "
                        "'${ARG_UNPARSED_ARGUMENTS}'")
  endif()
  tvm_ffi_add_prefix_map(${target} "${CMAKE_CURRENT_SOURCE_DIR}")
  foreach(kind HEADER SHARED)
    if(NOT DEFINED ARG_LINK_${kind} OR ARG_LINK_${kind})
      string(TOLOWER ${kind} name)
      target_link_libraries(${target} PRIVATE tvm_ffi::${name})
    endif()
  endforeach()
  if(ARG_STUB_DIR)
    _tvm_ffi_add_stubs()
  elseif(ARG_STUB_INIT OR ARG_STUB_PKG OR ARG_STUB_PREFIX)
    message(FATAL_ERROR "tvm_ffi_configure_target(${target}): expected STUB_DIR with other STUB_ "
                        "arguments, got none")
  endif()
endfunction()

# With the arguments of tvm_ffi_configure_target.
macro(_tvm_ffi_add_stubs)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c "import importlib.util as u; u.find_spec('tvm_ffi').name"
    RESULT_VARIABLE _tvm_ffi_lacks_generator OUTPUT_QUIET ERROR_QUIET)
  get_filename_component(_tvm_ffi_stub_dir "${ARG_STUB_DIR}" ABSOLUTE)
  set(_tvm_ffi_arguments "${_tvm_ffi_stub_dir}" --dlls $<TARGET_FILE:${target}>)
  if(ARG_STUB_TARGET)
    list(APPEND _tvm_ffi_arguments --target ${ARG_STUB_TARGET})
  endif()
  if(ARG_STUB_INIT)
    if(NOT ARG_STUB_PKG)
      set(ARG_STUB_PKG "${target}")
      if(SKBUILD_PROJECT_NAME)
        set(ARG_STUB_PKG "${SKBUILD_PROJECT_NAME}")
      endif()
    endif()
    if(NOT ARG_STUB_PREFIX)
      set(ARG_STUB_PREFIX "${ARG_STUB_PKG}.")
    endif()
    list(APPEND _tvm_ffi_arguments --init-lib ${target} --init-pypkg ${ARG_STUB_PKG} --init-prefix
         ${ARG_STUB_PREFIX})
  endif()
  if(_tvm_ffi_lacks_generator)
    message(WARNING "tvm_ffi_configure_target(${target}): Python stubs need apache-tvm-ffi, which "
                    "${Python3_EXECUTABLE} lacks; none will be written")
  else()
    add_custom_command(
      TARGET ${target} POST_BUILD COMMAND "${Python3_EXECUTABLE}" -m tvm_ffi.stub.cli
                                          ${_tvm_ffi_arguments} VERBATIM)
  endif()
endmacro()

# tvm_ffi_install(<target> [DESTINATION <folder>]): debug symbols, which have files of their own on
# other platforms only.
function(tvm_ffi_install target)
  if(NOT TARGET "${target}")
    message(FATAL_ERROR "tvm_ffi_install: expected a target, got '${target}'")
  endif()
endfunction()
