#!/usr/bin/env bash
# The main job on a real brain: what is in the file, three built-ins, a function of your own, and a run that is resumed.
set -euo pipefail
cd "$(dirname "$0")/.."

brain=examples/data/colin27_ch2_T1w.nii.gz
out=demo-output
rm -rf "$out"
mkdir -p "$out"

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }

say hyperslab info "$brain"
say hyperslab run stats "$brain" -o "$out/stats" --quiet
cat "$out/stats/stats.json"; echo
say hyperslab run histogram "$brain" -o "$out/histogram" --quiet
say hyperslab run smooth "$brain" -p sigma=2 --blocks 2x2x2 --keep volume -o "$out/smooth" --quiet
say hyperslab run examples/brighten.py:brighten "$brain" -p gain=1.5 --blocks 3x3x3 -o "$out/brighten"
say hyperslab run examples/brighten.py:head_volume "$brain" -o "$out/head_volume" --quiet
cat "$out/head_volume/result.json"; echo
say hyperslab verify "$out/brighten"

cat <<DONE

Outputs
  $out/brighten                    27 blocks, each a NIfTI that lies at its place in the head
  $out/smooth                      the whole head, smoothed block by block with a halo
  $out/histogram/histogram.svg     a picture; .csv and .npz beside it
  $out/stats/stats.json            minimum, maximum, mean, standard deviation
Report
  $out/brighten/.hyperslab/run-0001/report.html
DONE
