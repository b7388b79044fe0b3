#!/usr/bin/env bash
# The training benchmark of the public SIM documentation on one GPU: precision x XLA, batch 131,072, 20 warm-up steps.
# Run it where TensorFlow sees a GPU, in the train image for instance; it prints a Markdown table.
#   benchmarks/gpu.sh [FOLDER]     FOLDER keeps the generated records (default build/gpu)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/gpu}
python=${PYTHON:-python}

name=$($python -c 'import tensorflow as tf; print(*[tf.config.experimental.get_device_details(g).get("device_name") for g in tf.config.list_physical_devices("GPU")][:1])' 2>/dev/null)
if [ -z "$name" ]; then
  echo "error: TensorFlow sees no GPU; run this on a machine with one, in the train image" >&2
  exit 2
fi
if [ ! -f "$folder/tfrecord/_manifest.json" ]; then
  echo "writing records to $folder" >&2
  rm -rf "$folder"
  $python -c "
import sys; from pathlib import Path; from benchmarks.samples import write_samples
write_samples(Path(sys.argv[1]), 2_097_152, 16_384)" "$folder/parquet"
  $python -m components.tfrecord --parquet "$folder/parquet" --tfrecord "$folder/tfrecord" \
    --prebatch_train_size 4096 --prebatch_test_size 4096
fi

echo "$name, TensorFlow $($python -c 'import tensorflow as tf; print(tf.__version__)' 2>/dev/null)"
echo
echo "| precision | XLA | samples/s | latency mean ms | p90 | p95 | p99 |"
echo "|---|---|---:|---:|---:|---:|---:|"
for amp in false true; do
  for xla in false true; do
    CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} $python -m components.train.worker \
      --dataset_dir "$folder/tfrecord" --results_dir "$folder/results" --seed 1 --benchmark \
      --benchmark_warmup_steps 20 --benchmark_steps 100 --global_batch_size 131072 \
      --amp $amp --xla $xla > "$folder/log" 2>&1 || { tail -20 "$folder/log" >&2; exit 1; }
    $python - "$folder/results/log.json" "$amp" "$xla" <<'PYTHON'
import json
import sys

records = [json.loads(line.removeprefix("DLLL ")) for line in open(sys.argv[1])]
data = next(record["data"] for record in reversed(records) if "throughput" in record["data"])
latency = " | ".join(f"{data[f'latency_{name}']:.1f}" for name in ("mean", "p90", "p95", "p99"))
precision = "mixed" if sys.argv[2] == "true" else "float32"
print(f"| {precision} | {'on' if sys.argv[3] == 'true' else 'off'} | {data['throughput']:,.0f} | {latency} |")
PYTHON
  done
done
