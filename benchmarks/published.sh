# Sourced by the scripts that print the public documentation's tables of a model. They set model_type, and $1 is the folder
# that keeps data and models. Settings from the environment:
#   MODEL   further parameters of the model, such as "--embedding_dim 16"
#   PYTHON  the interpreter
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-build/$model_type}
python=${PYTHON:-python}
read -ra model <<< "${MODEL:-}"
mkdir -p "$folder"

worker() { # NAME ARGUMENTS...: $ranks workers with the seed $seed, and their results in $folder/NAME
  local name=$1 launch=("$python" -m components.train.worker)
  shift
  if [ "${ranks:-1}" -gt 1 ]; then
    launch=("$python" -c 'import sys; from pathlib import Path; from components.train.launching.launch import LocalLauncher
LocalLauncher("gloo").run(int(sys.argv[1]), sys.argv[3:], Path(sys.argv[2]))' "$ranks" "$folder/$name.ranks.log")
  fi
  "${launch[@]}" --dataset_dir "$folder/tfrecord" --results_dir "$folder/$name" --model_type "$model_type" \
    --seed "${seed:-1}" "${model[@]}" "$@" > "$folder/$name.log" 2>&1 || { tail -20 "$folder/$name.log" >&2; exit 1; }
}

row() { # FIRST NAME: a row of a table from the log of the run NAME
  "$python" - "$1" "$folder/$2/log.json" <<'PYTHON'
import json
import sys

records = [json.loads(line.removeprefix("DLLL ")) for line in open(sys.argv[2])]
data = next(record["data"] for record in reversed(records) if "latency_mean" in record["data"])
times = " | ".join(f"{data[f'latency_{name}']:.2f}" for name in ("mean", "p90", "p95", "p99"))
print(f"| {sys.argv[1]} | {data['throughput']:,.0f} | {times} |", flush=True)
PYTHON
}

heading() { # COLUMNS: an empty line and the head of a table whose rows `row` prints
  local columns=$1
  printf '\n| %s | samples/s | latency mean ms | p90 | p95 | p99 |\n' "$columns"
  printf '|---%s|---:|---:|---:|---:|---:|\n' "$(sed 's/[^|]//g; s/|/|---/g' <<< "$columns")"
}

records() { # DATASET DOWNLOAD...: generates the data set, unless the folder has records
  if [ ! -f "$folder/tfrecord/_manifest.json" ]; then
    echo "writing records to $folder" >&2
    "$python" -m components.download --dataset "$1" --raw "$folder/raw" "${@:2}" >&2
    "$python" -m components.preprocess --dataset "$1" --raw "$folder/raw" --parquet "$folder/parquet" >&2
    "$python" -m components.tfrecord --parquet "$folder/parquet" --tfrecord "$folder/tfrecord" \
      --prebatch_train_size 4096 --prebatch_test_size 4096 >&2
  fi
}

gpu=$("$python" -c 'import tensorflow as tf; print(*[tf.config.experimental.get_device_details(g).get("device_name") for g in tf.config.list_physical_devices("GPU")][:1])' 2>/dev/null)
precisions=(float32)
if [ -n "$gpu" ]; then
  precisions+=(mixed)
fi

machine() { # a line: the processor that computes, and TensorFlow's version
  echo "${gpu:-$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) cores}, TensorFlow $("$python" -c 'import tensorflow as tf; print(tf.__version__)' 2>/dev/null)"
}
