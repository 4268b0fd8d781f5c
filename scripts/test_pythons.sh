#!/usr/bin/env bash
# The fast tests on each Python that papilio supports, as far as it is on the PATH or among pyenv's versions.
# Each gets an environment of its own, .venv-3.11 and so on. Arguments go to pytest.
set -uo pipefail
cd "$(dirname "$0")/.."

# The path of a Python of version $1, such as 3.12; nothing if there is none. A shim of pyenv may not work.
find_python() {
    local candidate
    for candidate in "$(command -v "python$1")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$1" ]; then
            echo "$candidate"
            return
        fi
    done
}

prepare() {  # the environment $1, with the Python $2
    if [ ! "$1/.ready" -nt pyproject.toml ]; then
        "$2" -m venv "$1" \
            && "$1/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]' \
            && touch "$1/.ready"
    fi
}

status=0
summary=""
for version in 3.11 3.12 3.13; do
    python=$(find_python "$version")
    environment=.venv-$version
    if [ -z "$python" ]; then
        result="skipped, not found"
    elif ! prepare "$environment" "$python"; then
        result="FAILED, no environment"
        status=1
    elif "$environment/bin/python" -m pytest "$@"; then
        result="passed"
    else
        result="FAILED"
        status=1
    fi
    summary+="Python $version: $result"$'\n'
done
printf '\n%s' "$summary"
exit $status
