#!/usr/bin/env bash
#SBATCH --job-name=daylight
#SBATCH --array=1-2
#SBATCH --output=parts/%a.out
# Tunes functions as a Slurm job array: of N tasks, task K takes every N-th function. Number the tasks
# from 1, as many as there are machines or GPUs; each writes a log of its own.
#
#   mkdir -p parts
#   array=$(sbatch --parsable --array=1-8 --gres=gpu:1 examples/slurm/tune.sh FILE... --trials 64)
#   sbatch --dependency=afterany:"$array" --wrap 'daylight log merge parts/*.jsonl --out tuned.jsonl'
#
# A task that was killed is submitted again as it was: it goes on where its log ends. The files and options
# must be the same in every task, for they decide which function belongs to which.
set -euo pipefail
exec "${DAYLIGHT:-daylight}" tune "$@" \
    --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --log "parts/$SLURM_ARRAY_TASK_ID.jsonl"
