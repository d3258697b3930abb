# SPDX-License-Identifier: Apache-2.0
"""A decoder whose norm, rope, cache, attention, activation and sampling are FlashInfer's."""
