#!/bin/bash
# A real Slurm on loopback out of Debian's packages: munge, MariaDB, slurmdbd, slurmctld, two slurmd with four pretended GPUs
# each, slurmrestd. No systemd, no port beyond 127.0.0.1, nothing of the machine changed but the packages: the daemons see an
# /etc/hosts of their own in a mount namespace. Run as root; all files are below $SLURM_LAB.
#   SLURM_LAB=<folder> slurm_lab.sh up <product.conf>      slurm.conf lines that the product renders (tools/slurm_lab.py)
#   SLURM_LAB=<folder> slurm_lab.sh down | status | stop <daemon> [signal] | start <daemon>
# It ends only processes whose pid and start time it wrote down itself.
set -euo pipefail
lab=${SLURM_LAB:?set SLURM_LAB to the folder of the lab}
port=${SLURM_LAB_PORT:-17800}
self=$(hostname -s)
nodes=(slinky-0 slinky-1)
daemons=(anchor munged mariadbd slurmdbd slurmctld slurmd-slinky-0 slurmd-slinky-1 slurmrestd)
packages=(slurmctld slurmd slurmdbd slurmrestd slurm-client munge mariadb-server slurm-wlm-basic-plugins
  slurm-wlm-mysql-plugin slurm-wlm-jwt-plugin python3-torch libpmix-dev openmpi-bin python3-mpi4py)
socket=$lab/munge/munge.socket
export SLURM_CONF=$lab/etc/slurm.conf LC_ALL=C

fail() { echo "slurm-lab: $*" >&2; exit 1; }
unavailable() { echo "slurm-lab: $*" >&2; exit 3; } # it cannot be had here, which is no failure of the lab

# --- processes: "<pid> <start tick>" per daemon, so that a recycled pid never matches
tick() { awk '{sub(/^.*\) /, ""); if ($1 != "Z") print $20}' "/proc/$1/stat" 2>/dev/null || true; }
pid_of() {
  local pid start
  read -r pid start 2>/dev/null <"$lab/pids/$1" || return 1
  [ -n "$start" ] && [ "$(tick "$pid")" = "$start" ] && echo "$pid"
}
launch() { # <daemon> <command...>
  local name=$1 pid
  shift
  if pid_of "$name" >/dev/null; then return; fi
  setsid "$@" >>"$lab/log/$name.out" 2>&1 </dev/null &
  pid=$!
  sleep 0.2
  echo "$pid $(tick $pid)" >"$lab/pids/$name"
}
inside() { launch "$1" nsenter --mount="/proc/$(pid_of anchor)/ns/mnt" "${@:2}"; }
stop() { # <daemon> [signal]
  local pid
  pid=$(pid_of "$1") || return 0
  kill "-${2:-TERM}" "$pid"
  for _ in $(seq 100); do pid_of "$1" >/dev/null || return 0; sleep 0.1; done
  kill -KILL "$pid"
}
wait_for() { # <seconds> <what> <command...>
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until timeout 10 "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "$what did not come up (see $lab/log)"
    sleep 0.1
  done
}

install_packages() {
  local missing=() package policy=/usr/sbin/policy-rc.d
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then return; fi
  command -v apt-get >/dev/null || unavailable "needs Debian's packages ${missing[*]}, and here is no apt-get"
  echo "slurm-lab: installing ${missing[*]}"
  # Debian's packages start their daemons, unless this says no.
  [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy; chmod 755 $policy; trap 'rm -f /usr/sbin/policy-rc.d' EXIT; }
  apt-get update -q >"$lab/log/apt.out" 2>&1 || unavailable "apt-get update: $(tail -n 1 "$lab/log/apt.out")"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >>"$lab/log/apt.out" 2>&1 ||
    unavailable "apt-get install: $(grep -m 1 '^E:' "$lab/log/apt.out")"
}

key() { # <file> <owner>
  [ -s "$1" ] || (umask 077 && head -c 64 /dev/urandom >"$1")
  chown "$2:$2" "$1"
  chmod 400 "$1"
}

configure() { # <product.conf>
  local node index
  install -d -m 755 "$lab"/{etc,log,pids,spool,tmp,dev,shared/logs}
  install -d -m 755 -o munge -g munge "$lab/munge"
  install -d -m 755 -o slurm -g slurm "$lab"/{state,slurmlog}
  install -d -m 755 -o mysql -g mysql "$lab/mysql"
  key "$lab/etc/munge.key" munge
  key "$lab/etc/jwt.key" slurm
  echo "127.0.0.1 localhost $self ${nodes[*]}" >"$lab/etc/hosts"
  install -m 644 "$1" "$lab/etc/product.conf" # the daemons read it as user slurm
  : >"$lab/etc/gres.conf"
  for node in "${nodes[@]}"; do
    install -d "$lab/dev/$node" "$lab/spool/$node"
    install -d -m 1777 "$lab/tmp/$node"
    for index in 0 1 2 3; do [ -c "$lab/dev/$node/nvidia$index" ] || mknod -m 666 "$lab/dev/$node/nvidia$index" c 1 3; done
    echo "NodeName=$node Name=gpu Type=nvidia_l4 File=$lab/dev/$node/nvidia[0-3]" >>"$lab/etc/gres.conf"
  done
  printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$lab/etc/cgroup.conf" # named, and used by nothing here
  cat >"$lab/etc/common.conf" <<END
AuthType=auth/munge
AuthInfo=socket=$socket
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$lab/etc/jwt.key
SlurmUser=slurm
END
  cat "$lab/etc/common.conf" - >"$lab/etc/slurmdbd.conf" <<END
DbdHost=$self
DbdAddr=127.0.0.1
DbdPort=$((port + 19))
CommunicationParameters=NoInAddrAny
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((port + 36))
StorageUser=slurm
LogFile=$lab/slurmlog/slurmdbd.log
END
  chown slurm:slurm "$lab/etc/slurmdbd.conf"
  chmod 600 "$lab/etc/slurmdbd.conf"
  cat "$lab/etc/common.conf" - >"$SLURM_CONF" <<END
ClusterName=lab
SlurmctldHost=$self(127.0.0.1)
SlurmctldPort=$((port + 17))
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$lab/state
SlurmctldLogFile=$lab/slurmlog/slurmctld.log
SlurmdLogFile=$lab/log/slurmd-%n.log
SlurmdSpoolDir=$lab/spool/%n
SlurmdPidFile=$lab/spool/%n.pid
TmpFS=$lab/tmp/%n
SlurmdUser=root
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SlurmdTimeout=10
KillWait=5
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 19))
AccountingStoragePass=$socket
Include $lab/etc/product.conf
NodeName=slinky-0 NodeHostname=$self NodeAddr=127.0.0.1 Port=$((port + 41)) CPUs=8 RealMemory=4000 State=UNKNOWN
NodeName=slinky-1 NodeHostname=$self NodeAddr=127.0.0.1 Port=$((port + 42)) CPUs=8 RealMemory=4000 State=UNKNOWN
END
}

start() { # <daemon>
  local database=(mariadb-admin --no-defaults --socket="$lab/mysql/db.socket" --user=root)
  case $1 in
    anchor) launch anchor unshare --mount --propagation private \
      sh -c "mount --bind '$lab/etc/hosts' /etc/hosts && exec sleep infinity" ;;
    munged)
      inside munged setpriv --reuid=munge --regid=munge --clear-groups munged --foreground --socket="$socket" \
        --key-file="$lab/etc/munge.key" --log-file="$lab/munge/log" --pid-file="$lab/munge/pid" --seed-file="$lab/munge/seed"
      wait_for 10 munged sh -c "munge -n -S '$socket' | unmunge -S '$socket'" ;;
    mariadbd)
      [ -d "$lab/mysql/mysql" ] || mariadb-install-db --no-defaults --user=mysql --datadir="$lab/mysql" \
        --auth-root-authentication-method=socket --skip-test-db >"$lab/log/install-db.out"
      inside mariadbd mariadbd --no-defaults --user=mysql --datadir="$lab/mysql" --socket="$lab/mysql/db.socket" \
        --port=$((port + 36)) --bind-address=127.0.0.1 --skip-name-resolve --innodb-lock-wait-timeout=900 \
        --pid-file="$lab/mysql/db.pid"
      wait_for 30 MariaDB "${database[@]}" ping
      mariadb --no-defaults --socket="$lab/mysql/db.socket" --user=root -e "CREATE DATABASE IF NOT EXISTS slurm_acct_db;
        CREATE USER IF NOT EXISTS slurm@'127.0.0.1'; GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';" ;;
    slurmdbd)
      inside slurmdbd slurmdbd -D
      wait_for 60 slurmdbd sacctmgr --noheader list cluster ;;
    slurmctld)
      inside slurmctld slurmctld -D
      wait_for 30 slurmctld sh -c "scontrol ping | grep -q 'is UP'" ;;
    slurmd-*) inside "$1" slurmd -D -N "${1#slurmd-}" -f "$SLURM_CONF" ;;
    slurmrestd) # refuses to be root or SlurmUser
      inside slurmrestd env SLURM_JWT=daemon setpriv --reuid=nobody --regid=nogroup --clear-groups \
        slurmrestd -a rest_auth/jwt "127.0.0.1:$((port + 20))" ;;
    *) fail "no daemon $1; there are ${daemons[*]}" ;;
  esac
}

up() {
  local daemon
  [ "$(id -u)" = 0 ] || unavailable "needs root, for slurmd and the packages"
  mkdir -p "$lab"/{log,pids}
  install_packages
  local began=$SECONDS
  configure "$1"
  for daemon in "${daemons[@]}"; do start "$daemon"; done
  wait_for 40 "both nodes" sh -c "[ \$(sinfo -h -N -o '%N %t' | sort -u | grep -c ' idle\$') = 2 ]"
  echo "slurm-lab: up in $((SECONDS - began)) s, $(status | awk '{kib += $4} END {print int(kib / 1024)}') MiB; export SLURM_CONF=$SLURM_CONF"
}

status() {
  local daemon pid
  for daemon in "${daemons[@]}"; do
    if pid=$(pid_of "$daemon"); then
      echo "$daemon pid $pid $(awk '/^VmRSS/ {print $2}' "/proc/$pid/status") KiB"
    else
      echo "$daemon down"
    fi
  done
}

down() {
  local index jobs
  if pid_of slurmctld >/dev/null; then
    mapfile -t jobs < <(timeout 10 squeue -h -o %A)
    [ ${#jobs[@]} = 0 ] || timeout 20 scancel "${jobs[@]}" || true
    for _ in $(seq 50); do [ -n "$(timeout 5 squeue -h)" ] || break; sleep 0.2; done
  fi
  for ((index = ${#daemons[@]} - 1; index >= 0; index--)); do stop "${daemons[index]}"; done
}

case ${1:-} in
  up) up "${2:?product.conf}" ;;
  down) down ;;
  status) status ;;
  start) start "${2:?daemon}" ;;
  stop) stop "${2:?daemon}" "${3:-TERM}" ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
