#!/bin/sh
# The Python package's tests on a machine with a GPU, and each example for a few steps; in the build
# folder:  SOURCE/python/tests/gpu.sh [PYTHON]
# The Python must have torch for CUDA, numpy and pytest.
set -eu
python=${1-python3}
source=$(cd "$(dirname "$0")/../.." && pwd)
ECORNN_LIBRARY=${ECORNN_LIBRARY-$PWD/.libs/libecornn.so}
ECORNN_MODULE_DIR=${ECORNN_MODULE_DIR-$PWD/.libs}
PYTHONPATH=$source/python
OMP_WAIT_POLICY=passive
export ECORNN_LIBRARY ECORNN_MODULE_DIR PYTHONPATH OMP_WAIT_POLICY
"$python" -c 'import torch; assert torch.cuda.is_available(), "torch sees no GPU"'
"$python" -m ecornn
"$python" -m pytest -q -W ignore "$source/python/tests"
examples=$source/examples/torch
"$python" -W ignore "$examples/language_model.py" --exact --steps 100
for precision in f32 amp-bf16; do
    "$python" -W ignore "$examples/language_model.py" --precision $precision --batch 64 --steps 60
done
"$python" -W ignore "$examples/policy_ppo.py" --quick --steps 10
