#!/usr/bin/env bash
# Runs the job array of tune.sh for real: sets up Debian's Slurm on this machine alone (root needed), tunes a
# few functions on the CPU in two tasks, joins their logs and compares with a run in one piece.
#
#   cargo build && examples/slurm/try.sh [target/debug/daylight]
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/examples/slurm
DAYLIGHT=$(realpath "${1:-target/debug/daylight}")
export DAYLIGHT
work=$(mktemp -d)
options=(--device cpu --search random --trials 6 --seed 5 --cache "$work/cache")
daemons=()

end() {
    # Slurm's tools need the daemons, so these go last.
    ((${#daemons[@]} == 0)) || kill "${daemons[@]}" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap end EXIT

echo "== install"
if ! command -v slurmctld slurmd munged >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null
fi
slurmctld -V

echo "== start"
name=$(hostname -s)
export SLURM_CONF=$work/slurm.conf
cat >"$SLURM_CONF" <<END
ClusterName=daylight
SlurmctldHost=$name(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerParameters=sched_interval=1,sched_min_interval=0
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
NodeName=$name NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
mkdir -p "$work/state" "$work/spool" /run/munge
if ! munge --no-input >/dev/null 2>&1; then
    chown munge: /run/munge
    setpriv --reuid=munge --regid=munge --init-groups munged --foreground >/dev/null 2>&1 &
    daemons+=($!)
fi
slurmctld -D >/dev/null 2>&1 &
daemons+=($!)
slurmd -D >/dev/null 2>&1 &
daemons+=($!)
for _ in $(seq 60); do
    [[ $(sinfo --noheader --format=%T 2>/dev/null) == idle ]] && break
    sleep 1
done
sinfo --noheader --format='node %N is %T' || { tail "$work"/*.log; exit 1; }

echo "== two tasks of a job array, then a job that joins their logs"
cd "$work"
mkdir parts
# The processor is what is measured, so that the tasks take turns (--exclusive).
array=$(sbatch --parsable --array=1-2 --exclusive "$here/tune.sh" "$here/functions" "${options[@]}")
join="$DAYLIGHT log merge parts/*.jsonl --out merged.jsonl"
sbatch --wait --dependency="afterok:$array" --output=join.out --wrap "$join" ||
    { tail parts/*.out join.out slurm*.log; exit 1; }
tail -n 3 parts/*.out join.out

echo "== the same in one piece"
"$DAYLIGHT" tune "$here/functions" "${options[@]}" --log whole.jsonl >whole.out 2>&1 ||
    { cat whole.out; exit 1; }
tail -n 3 whole.out

echo "== compare"
"$here/same_keys.sh" "$DAYLIGHT" merged.jsonl whole.jsonl
