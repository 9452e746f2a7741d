#!/usr/bin/env bash
# Everything that only a GPU can say of Daylight on it, in one command: is every instruction, tile variant and rule form right there, how
# fast are the kernels, and how near is the model's choice. For a B200, a B300, a GeForce RTX 50, or any other CUDA GPU from sm_80 on.
#
#   benches/blackwell.sh DAYLIGHT OUT [MINUTES]
#
# DAYLIGHT is a release build of the command, OUT a folder for what comes out, MINUTES (30) the time that the steps share. Builds nothing. Needs
# the GPU's driver, NVRTC (`daylight doctor --fetch-nvrtc`), and Python 3.10 or newer with PyTorch; ncu where its counters are wanted. A step that
# fails is told and the rest goes on; at the end come a table of the steps and one OUT/*.tar.gz with log, tables and environment, which
# `daylight log merge` and `daylight report` read once it is unpacked. Exit code 0: no step failed; 1: one did; 2: usage.
# DEVICE=cpu runs it without a GPU: what needs one is left out.
set -euo pipefail
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
exec "${PYTHON:-python3}" "$(dirname "$0")/blackwell.py" --daylight "$1" --out "$2" --minutes "${3:-30}" --device "${DEVICE:-cuda:0}"
