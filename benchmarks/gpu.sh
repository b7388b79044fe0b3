#!/usr/bin/env bash
# The benchmarks of the public SIM documentation on the GPUs at hand: training and inference, precision x XLA.
# It prints Markdown tables. Run it where TensorFlow sees GPUs, such as in the train image, or in the launcher of an
# MPIJob with GPU workers (manifests/benchmark).
#   benchmarks/gpu.sh [FOLDER]     folder of the generated records (default /tmp/kfrec-gpu), shared by all workers
#   GPUS="1 8"                     numbers of GPUs; default 1, 2, 4 ... up to all
#   BATCHES="4096 131072"          inference batch sizes
#   TRAIN_BATCH=131072             samples per training step over all GPUs
#   STEPS=200 WARMUP=20            measured steps, and warm-up steps
#   TRAIN_ROWS, TEST_ROWS          generated samples; by default 16 training steps, and a full batch of every size
#   PRECISIONS="float32 mixed"     and COMPILED="off on": with and without mixed precision and XLA
#   OPTIONS="--embedding_dim 4"    more parameters of the worker
#   ON_CPU=1                       continues without a GPU, to test the script
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-/tmp/kfrec-gpu}
python=${PYTHON:-python}
steps=${STEPS:-200}
warmup=${WARMUP:-20}
train_batch=${TRAIN_BATCH:-131072}
batches=${BATCHES:-4096 8192 16384 32768 65536 131072}

# ranks N COMMAND...: runs a command as N ranks; in an MPIJob on the workers of the operator's host file.
ranks() {
  local number=$1
  shift
  if [ -n "${OMPI_MCA_orte_default_hostfile:-}" ]; then
    mpirun -np "$number" --bind-to none -x PATH -x LD_LIBRARY_PATH -x PYTHONPATH "$@"
  elif [ "$number" -gt 1 ]; then
    mpirun -np "$number" -H "localhost:$number" --bind-to none -x PATH -x LD_LIBRARY_PATH -x PYTHONPATH "$@"
  else
    "$@"
  fi
}

# The first rank's devices, one per line, then TensorFlow's version.
seen=$(ranks 1 "$python" -c 'import tensorflow as tf
for gpu in tf.config.list_physical_devices("GPU"):
    print(tf.config.experimental.get_device_details(gpu).get("device_name"))
print(tf.__version__)' 2>/dev/null)
names=$(echo "$seen" | head -n -1)
if [ -z "$names" ] && [ -n "${ON_CPU:-}" ]; then names=CPU; fi
if [ -z "$names" ]; then
  echo "error: TensorFlow sees no GPU; run this where it does, in the train image, or set ON_CPU=1" >&2
  exit 2
fi
if [ -n "${OMPI_MCA_orte_default_hostfile:-}" ]; then
  count=$(awk '{ for (i = 2; i <= NF; i++) if (sub("slots=", "", $i)) n += $i } END { print n }' \
    "$OMPI_MCA_orte_default_hostfile")
else
  count=$(echo "$names" | wc -l)
fi
gpus=${GPUS:-$(for n in 1 2 4 8 16 32 64; do if [ "$n" -le "$count" ]; then echo "$n"; fi; done)}

if [ ! -f "$folder/tfrecord/_manifest.json" ]; then
  echo "writing records to $folder" >&2
  rm -rf "$folder"
  $python -c "
import sys; from pathlib import Path; from benchmarks.samples import write_samples
write_samples(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))" \
    "$folder/parquet" "${TRAIN_ROWS:-$((16 * train_batch))}" "${TEST_ROWS:-262144}"
  $python -m components.tfrecord --parquet "$folder/parquet" --tfrecord "$folder/tfrecord" \
    --prebatch_train_size 16384 --prebatch_test_size 4096 >&2
fi

# measure GPUS MODE BATCH PRECISION COMPILED: a row of the table.
measure() {
  local amp=false xla=false
  if [ "$4" = mixed ]; then amp=true; fi
  if [ "$5" = on ]; then xla=true; fi
  # shellcheck disable=SC2086
  ranks "$1" "$python" -m components.train.worker --dataset_dir "$folder/tfrecord" --results_dir "$folder/results" \
    --seed 1 --mode "$2" --benchmark --benchmark_warmup_steps "$warmup" --benchmark_steps "$steps" \
    --global_batch_size "$3" --amp "$amp" --xla "$xla" --dropout_rate -1 --repetition false --user_dropout 0 --average_decay 0 ${OPTIONS:-} > "$folder/log" 2>&1 ||
    { tail -20 "$folder/log" >&2; exit 1; }
  $python - "$folder/results/log.json" "$1" "$3" "$4" "$5" <<'PYTHON'
import json
import sys

path, gpus, batch, precision, compiled = sys.argv[1:]
records = [json.loads(line.removeprefix("DLLL ")) for line in open(path)]
data = next(record["data"] for record in reversed(records) if "throughput" in record["data"])
speed = f"{data['throughput']:,.0f} | {data['throughput_std']:,.0f}"
latency = " | ".join(f"{data[f'latency_{name}']:.1f}" for name in ("mean", "p90", "p95", "p99"))
print(f"| {gpus} | {int(batch):,} | {precision} | {compiled} | {speed} | {latency} |", flush=True)
PYTHON
}

# table TITLE MODE GPUS BATCHES: a row for each combination.
table() {
  printf '\n%s\n\n' "$1"
  echo "| GPUs | batch | precision | XLA | samples/s | std | latency mean ms | p90 | p95 | p99 |"
  echo "|---:|---:|---|---|---:|---:|---:|---:|---:|---:|"
  local n batch precision compiled
  for n in $3; do
    for batch in $4; do
      for precision in ${PRECISIONS:-float32 mixed}; do
        for compiled in ${COMPILED:-off on}; do measure "$n" "$2" "$batch" "$precision" "$compiled"; done
      done
    done
  done
}

echo "$count x $(echo "$names" | head -1), TensorFlow $(echo "$seen" | tail -1)"
table Training train "$gpus" "$train_batch"
table Inference inference 1 "$batches"
