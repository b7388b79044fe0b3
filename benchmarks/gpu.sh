#!/usr/bin/env bash
# The benchmarks of the public SIM documentation on the GPUs at hand: training and inference, precision x XLA.
# Run it where TensorFlow sees GPUs, in the train image for instance; it prints Markdown tables.
#   benchmarks/gpu.sh [FOLDER]     FOLDER keeps the generated records (default /tmp/kfrec-gpu)
#   GPUS="1 8"                     numbers of GPUs; default 1, 2, 4 ... up to those at hand
#   BATCHES="4096 131072"          sizes of inference; training has 131,072 samples over all GPUs
#   STEPS=200                      measured steps, after 20 that are not
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-/tmp/kfrec-gpu}
python=${PYTHON:-python}
steps=${STEPS:-200}
batches=${BATCHES:-4096 8192 16384 32768 65536 131072}

names=$($python -c 'import tensorflow as tf; [print(tf.config.experimental.get_device_details(g).get("device_name")) for g in tf.config.list_physical_devices("GPU")]' 2>/dev/null || true)
if [ -z "$names" ]; then
  echo "error: TensorFlow sees no GPU; run this on a machine with one, in the train image" >&2
  exit 2
fi
count=$(echo "$names" | wc -l)
gpus=${GPUS:-$(for n in 1 2 4 8 16; do if [ "$n" -le "$count" ]; then echo "$n"; fi; done)}
if [ ! -f "$folder/tfrecord/_manifest.json" ]; then
  echo "writing records to $folder" >&2
  rm -rf "$folder"
  # Test rows for a full batch of every size; training rows for 16 steps an epoch.
  $python -c "
import sys; from pathlib import Path; from benchmarks.samples import write_samples
write_samples(Path(sys.argv[1]), 2_097_152, 262_144)" "$folder/parquet"
  $python -m components.tfrecord --parquet "$folder/parquet" --tfrecord "$folder/tfrecord" \
    --prebatch_train_size 16384 --prebatch_test_size 4096
fi

# measure GPUS MODE BATCH AMP XLA: a row of the table.
measure() {
  local launch=()
  if [ "$1" -gt 1 ]; then
    launch=(mpirun -np "$1" -H "localhost:$1" --bind-to none -x PATH -x LD_LIBRARY_PATH -x PYTHONPATH)
  fi
  "${launch[@]}" $python -m components.train.worker --dataset_dir "$folder/tfrecord" --results_dir "$folder/results" \
    --seed 1 --mode "$2" --benchmark --benchmark_warmup_steps 20 --benchmark_steps "$steps" \
    --global_batch_size "$3" --amp "$4" --xla "$5" > "$folder/log" 2>&1 || { tail -20 "$folder/log" >&2; exit 1; }
  $python - "$folder/results/log.json" "$@" <<'PYTHON'
import json
import sys

path, gpus, _, batch, amp, xla = sys.argv[1:]
records = [json.loads(line.removeprefix("DLLL ")) for line in open(path)]
data = next(record["data"] for record in reversed(records) if "throughput" in record["data"])
precision, compiled = "mixed" if amp == "true" else "float32", "on" if xla == "true" else "off"
speed = f"{data['throughput']:,.0f} | {data['throughput_std']:,.0f}"
latency = " | ".join(f"{data[f'latency_{name}']:.1f}" for name in ("mean", "p90", "p95", "p99"))
print(f"| {gpus} | {int(batch):,} | {precision} | {compiled} | {speed} | {latency} |", flush=True)
PYTHON
}

# table TITLE
table() {
  printf '\n%s\n\n' "$1"
  echo "| GPUs | batch | precision | XLA | samples/s | std | latency mean ms | p90 | p95 | p99 |"
  echo "|---:|---:|---|---|---:|---:|---:|---:|---:|---:|"
}

echo "$count x $(echo "$names" | head -1), TensorFlow $($python -c 'import tensorflow as tf; print(tf.__version__)' 2>/dev/null)"
table Training
for n in $gpus; do
  for amp in false true; do for xla in false true; do measure "$n" train 131072 $amp $xla; done; done
done
table Inference
for batch in $batches; do
  for amp in false true; do for xla in false true; do measure 1 inference "$batch" $amp $xla; done; done
done
