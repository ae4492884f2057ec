#!/bin/bash
# Prevents: library paths that are stale, relative or empty (an empty one means the current folder).
IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}"
mapfile -t -O ${#folders[@]} folders <"$ASSERT_ROOT/etc/ld.so.conf.d/00-efa.conf"
case :${LD_LIBRARY_PATH-/}: in *::*) fail "LD_LIBRARY_PATH: '$LD_LIBRARY_PATH' has an empty item, which means the current folder; drop it" ;; esac
for folder in "${folders[@]}"; do
  case $folder in
    /*) [ -d "$folder" ] || fail "library folder $folder: does not exist; a stale path is silent TCP; see locate.sh and the ENV lines" ;;
    *) fail "library folder '$folder': not absolute; it means another place in every folder; write it in full" ;;
  esac
done
echo "${#folders[@]} folders exist"
