# SPDX-License-Identifier: Apache-2.0
"""The decoder of the llama_block example in a C++ program without Python."""
