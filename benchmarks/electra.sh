#!/usr/bin/env bash
# The public ELECTRA documentation's tables of speed on this machine: sequences/s of both phases of the pre-training and of
# the fine-tuning by GPUs, precision and XLA, and inference by batch. It prints Markdown; without a GPU mixed precision and
# XLA are left out.
#   benchmarks/electra.sh [FOLDER]    FOLDER keeps records and logs (default build/electra)
# Settings, with the published values in brackets, besides those of published.sh, whose MODEL has the sizes:
#   GPUS    numbers of GPUs ("1 8"; default 1)           STEPS  measured micro-batches, each a step here (default 100)
#   MICRO1, MICRO2  texts of a GPU in a micro-batch of 128 (176; 88 in float32) and of 512 tokens (24; 12)
#   TUNED   questions of a GPU in a batch (32)           SIZES  batch sizes of inference (1 256 512)
model_type=electra
# shellcheck source=published.sh
. "$(dirname "$0")/published.sh"
root=$folder
compilers=(false)
if [ -n "$gpu" ]; then
  compilers+=(true)
fi

texts() { # NAME LENGTH ARGUMENTS...: records of random tokens in $root/NAME, where the next workers read
  folder=$root/$1
  if [ ! -f "$folder/tfrecord/_manifest.json" ]; then
    "$python" -m benchmarks.token_records "$folder/tfrecord" --length "$2" "${@:3}" >&2
  fi
}

measure() { # FLOAT32 MIXED ARGUMENTS...: a row for each number of GPUs, precision and compiler; batches of a GPU
  for ranks in ${GPUS:-1}; do
    for precision in "${precisions[@]}"; do
      for xla in "${compilers[@]}"; do
        local amp=false each=$1
        if [ "$precision" = mixed ]; then amp=true each=$2; fi
        worker run --benchmark --benchmark_steps "${STEPS:-100}" --global_batch_size $((each * ranks)) --amp $amp \
          --micro_batch_size 0 --xla "$xla" "${@:3}"
        row "$ranks | $each | $precision | $xla" run
      done
    done
  done
  ranks=1
}

machine
texts phase1 128
heading "phase 1, 128 tokens: GPUs or processes | texts of a GPU | precision | XLA"
measure "${MICRO1:-88}" "${MICRO1:-176}"

texts phase2 512
heading "phase 2, 512 tokens: GPUs or processes | texts of a GPU | precision | XLA"
measure "${MICRO2:-12}" "${MICRO2:-24}"

model_type=electra_qa
texts questions 384 --questions
heading "fine-tuning, 384 tokens: GPUs or processes | questions of a GPU | precision | XLA"
measure "${TUNED:-32}" "${TUNED:-32}"

heading "inference, 384 tokens: GPUs or processes | batch | precision | XLA"
for size in ${SIZES:-1 256 512}; do
  measure "$size" "$size" --mode inference
done
