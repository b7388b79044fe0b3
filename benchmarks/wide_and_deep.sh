#!/usr/bin/env bash
# The public Wide & Deep documentation's tables on this machine: throughput of training and of inference by precision and
# XLA, and MAP@12 over seeds. It prints Markdown; without a GPU mixed precision and XLA are left out.
#   benchmarks/wide_and_deep.sh [FOLDER]    FOLDER keeps data and models (default build/wide_and_deep)
# Settings, with the published values in brackets, besides those of published.sh:
#   DISPLAYS   synthetic displays (default 400,000, of about 5.2 ads each)   GPUS     numbers of GPUs ("1 8"; default 1)
#   BATCH      samples per training step over all GPUs (131072)              STEPS    measured training steps (1000)
#   SIZES      inference batch sizes (4096 to 131072)                        INFERENCE_STEPS  measured steps per size (1000)
#   SEEDS      of the trainings for MAP@12 (20 of them; default "1 2 3")
#   SCORED     parameters of these trainings (default small batches and high rates, for synthetic data)
model_type=wide_and_deep
# shellcheck source=published.sh
. "$(dirname "$0")/published.sh"
batch=${BATCH:-131072}
compilers=(false)
if [ -n "$gpu" ]; then
  compilers+=(true)
fi
records outbrain --synthetic_displays "${DISPLAYS:-400000}"

measure() { # NAME SIZE STEPS ARGUMENTS...: a row for each number of GPUs, precision and compiler
  for ranks in ${GPUS:-1}; do
    for precision in "${precisions[@]}"; do
      for xla in "${compilers[@]}"; do
        amp=false
        [ "$precision" = mixed ] && amp=true
        worker "$1" --benchmark --benchmark_steps "$3" --global_batch_size "$2" --amp $amp --xla "$xla" "${@:4}"
        row "$ranks | $2 | $precision | $xla" "$1"
      done
    done
  done
  ranks=1
}

machine
heading "training, GPUs or processes | batch | precision | XLA"
measure training "$batch" "${STEPS:-1000}"

heading "inference, GPUs or processes | batch | precision | XLA"
for size in ${SIZES:-4096 8192 16384 32768 65536 131072}; do
  measure inference "$size" "${INFERENCE_STEPS:-1000}" --mode inference
done

read -ra scored <<< "${SCORED:---epochs 3 --global_batch_size 2048 --embedding_dim 16 --deep_hidden_units 64,64 \
  --deep_learning_rate 0.004 --linear_learning_rate 0.05 --deep_warmup_epochs 1}"
for precision in "${precisions[@]}"; do
  amp=false
  [ "$precision" = mixed ] && amp=true
  logs=()
  for seed in ${SEEDS:-1 2 3}; do
    # As published: every sample trains, and the last epoch is scored on the test split.
    worker "trained_$seed" "${scored[@]}" --amp $amp --export_epoch last --validation_share 0
    worker "scored_$seed" "${scored[@]}" --mode eval --load_checkpoint_path "$folder/trained_$seed"
    logs+=("$folder/scored_$seed/log.json")
  done
  printf '\n%s, MAP@12 of the last epoch: ' "$precision"
  "$python" - "${logs[@]}" <<'PYTHON'
import json
import statistics
import sys

found = [json.loads(open(path).readlines()[-1].removeprefix("DLLL "))["data"]["test_map"] for path in sys.argv[1:]]
print(f"mean {statistics.mean(found):.4f}, standard deviation {statistics.pstdev(found):.4f}, {len(found)} seeds")
PYTHON
done
