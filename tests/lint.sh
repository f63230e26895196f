#!/usr/bin/env bash
# Every static check. ansible-test needs the tree under ansible_collections/inferops/sglang, and a link does not do:
# it gets a copy of what git tracks or would track.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "lint: ruff"; ruff check .; ruff format --check .
echo "lint: mypy"; mypy
# named folders: the checkout holds a link to itself, which a search would follow for ever
echo "lint: ansible-lint"; ansible-lint --offline --profile production deploy.yml playbooks roles

root=tests/output/ansible_collections/inferops/sglang
rm -rf tests/output/ansible_collections
mkdir -p $root
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -P -t $root 2>/dev/null || true
rm -rf $root/collections
(
  cd $root
  git init -q . && git add -A  # both tools ask git which files there are
  # the copy has no link to itself, which ansible-lint would follow for ever
  echo "lint: ansible-test sanity"
  # ansible-test bootstraps pip by a download; ensurepip does the same without the network. Its environments are kept
  # beside the other caches, away from the user's home.
  export HOME=${INFEROPS_CACHE:-/var/cache/inferops}/ansible-test
  mkdir -p "$HOME/.ansible/test/cache"
  pip_version=$(python -c 'import re, ansible_test, pathlib
text = (pathlib.Path(ansible_test.__path__[0]) / "_internal/python_requirements.py").read_text()
print(re.search(r"pip=.(\d[\d.]+)", text).group(1))')
  echo 'import subprocess, sys; sys.exit(subprocess.call([sys.executable, "-m", "ensurepip"]))' \
    >"$HOME/.ansible/test/cache/get_pip_${pip_version//./_}.py"
  version=$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  ansible-test sanity --python "$version" --exclude tests/ --exclude agent/ --exclude locks/
)
echo "lint: antsibull-docs"; antsibull-docs lint-collection-docs --plugin-docs .
echo "lint: antsibull-changelog"; antsibull-changelog lint
