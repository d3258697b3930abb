# SPDX-License-Identifier: Apache-2.0
"""A model of PyTorch as an ONNX model, run by ONNX Runtime in Python and in C."""
