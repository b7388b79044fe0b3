#!/usr/bin/env bash
# The public DLRM documentation's tables on this machine: training throughput by precision, inference latency from 1 to
# 65,536 samples, and scores of a trained model. It prints Markdown; without a GPU mixed precision is left out.
#   benchmarks/dlrm.sh [FOLDER]    FOLDER keeps data and model (default build/dlrm)
# Settings, with the published values in brackets:
#   IMPRESSIONS  synthetic impressions (default 2,000,000)       VALUES  most distinct values of a column (8165896)
#   BATCH        samples a training step (65536)                 STEPS   measured steps of training (1000)
#   INFERENCE_STEPS  measured steps of each latency (100)        SIZES   samples of a batch, for each latency
#   SCORE_BATCH  samples a step of the training that is scored (default 1024)
#   MODEL        further parameters of the model, such as "--embedding_dim 16 --bottom_mlp_dims 64,16"
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/dlrm}
python=${PYTHON:-python}
batch=${BATCH:-65536}
read -ra model <<< "${MODEL:-}"
mkdir -p "$folder"

worker() { # NAME ARGUMENTS...: a worker with its results in $folder/NAME
  local name=$1
  shift
  $python -m components.train.worker --dataset_dir "$folder/tfrecord" --results_dir "$folder/$name" --model_type dlrm \
    --seed 1 "${model[@]}" "$@" > "$folder/$name.log" 2>&1 || { tail -20 "$folder/$name.log" >&2; exit 1; }
}

row() { # FIRST NAME: a row of the table from the log of the run NAME
  $python - "$1" "$folder/$2/log.json" <<'PYTHON'
import json
import sys

records = [json.loads(line.removeprefix("DLLL ")) for line in open(sys.argv[2])]
data = next(record["data"] for record in reversed(records) if "latency_mean" in record["data"])
times = " | ".join(f"{data[f'latency_{name}']:.2f}" for name in ("mean", "p90", "p95", "p99"))
print(f"| {sys.argv[1]} | {data['throughput']:,.0f} | {times} |")
PYTHON
}

if [ ! -f "$folder/tfrecord/_manifest.json" ]; then
  echo "writing records to $folder" >&2
  $python -m components.download --dataset criteo --raw "$folder/raw" \
    --synthetic_impressions "${IMPRESSIONS:-2000000}" --synthetic_values "${VALUES:-8165896}" >&2
  $python -m components.preprocess --dataset criteo --raw "$folder/raw" --parquet "$folder/parquet" >&2
  $python -m components.tfrecord --parquet "$folder/parquet" --tfrecord "$folder/tfrecord" \
    --prebatch_train_size 4096 --prebatch_test_size 4096 >&2
fi

gpu=$($python -c 'import tensorflow as tf; print(*[tf.config.experimental.get_device_details(g).get("device_name") for g in tf.config.list_physical_devices("GPU")][:1])' 2>/dev/null)
precisions=(float32)
[ -n "$gpu" ] && precisions+=(mixed)
echo "${gpu:-$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) cores}, TensorFlow $($python -c 'import tensorflow as tf; print(tf.__version__)' 2>/dev/null)"

echo
echo "| training, batch $batch | samples/s | latency mean ms | p90 | p95 | p99 |"
echo "|---|---:|---:|---:|---:|---:|"
for precision in "${precisions[@]}"; do
  scale=()
  [ "$precision" = mixed ] && scale=(--amp true --loss_scale 65536)
  worker "train_$precision" --benchmark --global_batch_size "$batch" --benchmark_steps "${STEPS:-1000}" "${scale[@]}"
  row "$precision" "train_$precision"
done

echo
echo "| inference, samples a batch | samples/s | latency mean ms | p90 | p95 | p99 |"
echo "|---|---:|---:|---:|---:|---:|"
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
