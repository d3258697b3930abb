# SPDX-License-Identifier: Apache-2.0
"""The decoder of the llama_block example as a library, in hosts without torch."""
