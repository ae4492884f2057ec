#!/bin/bash
# Prevents: a python3 without the container's torch, or a torch for another CUDA than the toolkit and the driver.
found=$(python3 -c 'import torch; print(torch.__version__, torch.version.cuda)') || fail "python3 cannot import torch; the DLC keeps Python elsewhere, see the COPY lines"
case $found in
  2.9.*" 13.0") echo "torch $found" ;;
  *) fail "torch and its CUDA: got $found; the tag promises torch 2.9 and CUDA 13.0; see the DLC image" ;;
esac
