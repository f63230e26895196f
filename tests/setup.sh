#!/usr/bin/env bash
# Makes .venv with everything that the controller, the sandbox and the tests need; does nothing when it is current.
# Installs what is missing on a fresh Debian or Ubuntu machine, so it may need root.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv/.stamp
wanted=$(cat requirements-dev.txt tests/setup.sh | sha256sum | cut -d' ' -f1)
[ "$(cat $stamp 2>/dev/null)" = "$wanted" ] && exit 0

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# ansible-core 2.19 needs Python 3.11 or newer; the system's own is preferred to a version manager's.
find_python() {
  local python
  for python in /usr/bin/python3 /usr/bin/python3.1[1-4] python3; do
    if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  return 1
}

if ! python=$(find_python); then
  echo "setup: installing Python 3.11 or newer with venv (apt-get)"
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q python3 python3-venv
  python=$(find_python) || {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q python3.11 python3.11-venv
    python=$(find_python)
  }
fi
missing=""
for program in git ssh rsync; do command -v $program >/dev/null || missing="$missing ${program/#ssh/openssh-client}"; done
if [ -n "$missing" ]; then
  echo "setup: installing$missing (apt-get)"
  as_root apt-get update -q
  # shellcheck disable=SC2086  # a list of names
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q $missing
fi

echo "setup: making .venv with $("$python" --version)"
.venv/bin/python -c '' 2>/dev/null || "$python" -m venv --clear .venv
.venv/bin/pip install --quiet uv
.venv/bin/uv pip install --quiet --python .venv/bin/python -r requirements-dev.txt
echo "$wanted" >$stamp
