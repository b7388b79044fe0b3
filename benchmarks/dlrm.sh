#!/usr/bin/env bash
# The public DLRM documentation's tables on this machine: training throughput by precision, inference latency from 1 to
# 65,536 samples, and scores of a trained model. It prints Markdown; without a GPU mixed precision is left out.
#   benchmarks/dlrm.sh [FOLDER]    FOLDER keeps data and model (default build/dlrm)
# Settings, with the published values in brackets, besides those of published.sh:
#   IMPRESSIONS  synthetic impressions (default 2,000,000)       VALUES  most distinct values of a column (8165896)
#   BATCH        samples per training step (65536)               STEPS   measured training steps (1000)
#   INFERENCE_STEPS  measured steps per batch size (100)         SIZES   batch sizes of the latencies
#   SCORE_BATCH  samples per step of the scored training (default 1024)
model_type=dlrm
# shellcheck source=published.sh
. "$(dirname "$0")/published.sh"
batch=${BATCH:-65536}
records criteo --synthetic_impressions "${IMPRESSIONS:-2000000}" --synthetic_values "${VALUES:-8165896}"

machine
heading "training, batch $batch"
for precision in "${precisions[@]}"; do
  scale=()
  [ "$precision" = mixed ] && scale=(--amp true --loss_scale 65536)
  worker "train_$precision" --benchmark --global_batch_size "$batch" --benchmark_steps "${STEPS:-1000}" "${scale[@]}"
  row "$precision" "train_$precision"
done

heading "inference, samples a batch"
for precision in "${precisions[@]}"; do
  amp=false
  [ "$precision" = mixed ] && amp=true
  for size in ${SIZES:-1 8 64 512 2048 4096 8192 16384 32768 65536}; do
    worker inference --mode inference --benchmark --global_batch_size "$size" \
      --benchmark_steps "${INFERENCE_STEPS:-100}" --amp $amp
    row "$precision, $size" inference
  done
done

echo
worker trained --global_batch_size "${SCORE_BATCH:-1024}" --optimizer adam --learning_rate 0.001 --warmup_steps 100 \
  --decay_steps 0
worker eval --mode eval --load_checkpoint_path "$folder/trained" --global_batch_size 16384
echo "evaluation of one epoch of Adam: $(tail -1 "$folder/eval.log")"
