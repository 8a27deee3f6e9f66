# Makes .venv hold exactly what a lock file names. Sourced by scripts/run and scripts/test; needs Python 3.11 or newer.

# Compiled modules make a start several times faster; some environments switch them off for their own reasons.
unset PYTHONDONTWRITEBYTECODE

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
    if command -v "$candidate" >/dev/null 2>&1 \
      && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      command -v "$candidate"
      return 0
    fi
  done
  echo "yizhan: no Python 3.11 or newer found; install one, or name it: PYTHON=/path/to/python3.12 $0" >&2
  return 1
}

make_venv() {
  local python
  python="$(find_python)" || return 1
  echo "yizhan: making .venv with $("$python" --version)" >&2
  rm -rf .venv
  if "$python" -m venv .venv >/dev/null 2>&1 && .venv/bin/python -m pip --version >/dev/null 2>&1; then
    return 0
  fi
  rm -rf .venv
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "yizhan: this Python has no venv module; installing it from the system's packages" >&2
    apt_install python3-venv || true
    "$python" -m venv .venv && return 0
  fi
  echo "yizhan: '$python -m venv' does not work; on Debian and Ubuntu: apt-get install python3-venv" >&2
  return 1
}

# apt_install PACKAGE...: as root on a Debian system; the package lists are fetched once per run. Fails otherwise.
apt_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
  if [ -z "${APT_UPDATED:-}" ]; then
    apt-get update -qq </dev/null >/dev/null 2>&1 || true
    APT_UPDATED=1
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null 2>&1
}

# is_installed LOCK: does .venv work and hold what LOCK, or the larger development lock, names?
is_installed() {
  [ -x .venv/bin/python ] && [ -x .venv/bin/yizhan ] || return 1
  cmp -s pyproject.toml .venv/installed-pyproject.toml || return 1
  cmp -s "$1" ".venv/installed-$1" || cmp -s requirements-dev.lock .venv/installed-requirements-dev.lock
}

install_lock() {
  local lock="$1"
  if is_installed "$lock" && .venv/bin/python -c '' >/dev/null 2>&1; then
    return 0
  fi
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    make_venv || return 1
  fi
  echo "yizhan: installing $lock into .venv (once; again only when it changes)" >&2
  rm -f .venv/installed-*
  .venv/bin/python -m pip install -qq --disable-pip-version-check --no-input --progress-bar off \
    --no-deps --require-hashes -r "$lock" </dev/null || return 1
  .venv/bin/python -m pip install -qq --disable-pip-version-check --no-input --progress-bar off \
    --no-deps --no-build-isolation --no-index -e . </dev/null || return 1
  cp pyproject.toml .venv/installed-pyproject.toml
  cp "$lock" ".venv/installed-$lock"
}

# ensure_environment LOCK: two runs at once take turns where flock exists.
ensure_environment() {
  if is_installed "$1" && .venv/bin/python -c '' >/dev/null 2>&1; then
    return 0
  fi
  if command -v flock >/dev/null 2>&1; then
    exec 9>.venv.lock
    flock 9
    install_lock "$1"
    local result=$?
    exec 9>&-
    return $result
  fi
  install_lock "$1"
}
