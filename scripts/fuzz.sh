#!/usr/bin/env bash
# Fuzzes importer, normalisation and readers with libFuzzer under sanitizers: fuzz.sh [RUNS of each target [TARGET ...]].
# Inputs that reach new code are kept in build-fuzz/found and serve the next run; a finding ends the run and is kept there.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
runs=${1:-350000}
targets=("${@:2}")
((${#targets[@]})) || targets=(import model readers)
"$root/scripts/build.sh" fuzz "${targets[@]/#/fuzz_}"
for target in "${targets[@]}"; do
  found=$root/build-fuzz/found/$target
  mkdir -p "$found"
  log=$found.log
  "$root/build-fuzz/bin/fuzz_$target" -runs="$runs" -timeout=20 -rss_limit_mb=1536 -max_len=16384 -print_final_stats=1 \
    -artifact_prefix="$found-" "$found" "$root/test/fuzz/corpus/$target" >"$log" 2>&1 ||
    { tail -n 60 "$log" >&2; echo "fuzz: $target has a finding; the input is $found-*" >&2; exit 1; }
  awk -v target="$target" '/number_of_executed_units|peak_rss_mb|slowest_unit/ { sub("stat::", ""); line = line " " $1 " " $2 }
                           END { print "fuzz: " target line }' "$log"
done
