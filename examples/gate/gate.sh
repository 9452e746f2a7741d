#!/usr/bin/env bash
# Tunes functions again and fails where one became slower than a log says, or lost its kernel:
#
#   gate.sh FUNCTIONS BASELINE [PERCENT]
#
# The machine has to be the one, or the model of GPU, that the baseline was measured on. DAYLIGHT names the program,
# DEVICE the device, TRIALS the candidates of each function. The comparison lies in gate/diff.md, the new log in gate/log.
set -euo pipefail
functions=$1 baseline=$2 percent=${3:-5%}
daylight=${DAYLIGHT:-daylight}
rm -rf gate
mkdir gate
"$daylight" tune "$functions" --device "${DEVICE:-auto}" --trials "${TRIALS:-64}" --log gate/log
"$daylight" log diff "$baseline" gate/log --markdown > gate/diff.md
"$daylight" log diff "$baseline" gate/log --fail-above "$percent"
