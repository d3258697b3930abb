# SPDX-License-Identifier: Apache-2.0
# Refuses a library that describes no op: cmake -DLIBRARY=libkernels.so -P check_ops.cmake
file(STRINGS "${LIBRARY}" texts REGEX "__graphffi_op_")
if(NOT texts)
  file(REMOVE "${LIBRARY}")
  message(FATAL_ERROR "${LIBRARY}: expected ops by GRAPHFFI_EXPORT_OP, got none")
endif()
