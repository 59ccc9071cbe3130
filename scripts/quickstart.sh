#!/usr/bin/env bash
# README command one: sets up, builds, trains the quickstart to its end. Further arguments are
# overrides, e.g. scripts/quickstart.sh trainer.total_training_steps=5
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/configure.sh build
ninja -C build --quiet app/verlcpp-train
exec build/app/verlcpp-train --config-name quickstart "$@"
