#!/usr/bin/env bash
# Installs what Zoetrope is built from, as Debian 12 and Ubuntu 22.04 name it. Does nothing where all is there.
#   scripts/install_deps.sh [--tests] [--ci] [--cuda=apt|pip|conda|headers] [--print]
# --tests   also what `make test` needs      --ci     also what .ci/run needs
# --cuda=X  also nvcc, cuBLAS, cuDNN and its frontend, NCCL (headers: the frontend alone)   --print  only print the commands
# As root, or with CI=true, it installs; otherwise it prints the one line to run and fails. It never calls sudo.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build pkg-config                                # tools
  libdnnl-dev ocl-icd-opencl-dev                                  # ops/cpu; dnnl's CMake file asks for OpenCL
  libsentencepiece-dev libicu-dev libpng-dev                      # io
  nlohmann-json3-dev libyaml-cpp-dev                              # base
  libspdlog-dev                                                   # base
  libcli11-dev                                                    # cli
  libavcodec-dev libavformat-dev libavutil-dev libswscale-dev     # tools/mp4, a program of its own
)
test_packages=(libgtest-dev ccache)
ci_packages=(
  clang-format debootstrap
  clang-14 libclang-rt-14-dev    # tools/fuzz.sh
  libopenmpi-dev openmpi-bin     # comm/mpi, an option
)

cuda='' only_print=no
for arg in "$@"; do
  case $arg in
    --tests) packages+=("${test_packages[@]}") ;;
    --ci) packages+=("${test_packages[@]}" "${ci_packages[@]}") ;;
    --cuda=apt | --cuda=pip | --cuda=conda | --cuda=headers) cuda=${arg#--cuda=} ;;
    --print) only_print=yes ;;
    *)
      echo "install_deps.sh: unknown argument '$arg'; known: --tests --ci --cuda=apt|pip|conda|headers --print" >&2
      exit 2
      ;;
  esac
done

may_install() { [ "$(id -u)" = 0 ] || [ "${CI:-}" = true ]; }

missing_of() {  # prints those of the given packages that are not installed
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed' || echo "$package"
  done
}

lists_are_old() {  # no package lists, or none from the last day
  [ -z "$(find /var/lib/apt/lists -maxdepth 1 -type f -name '*_Packages*' -mtime -1 -print -quit 2>/dev/null)" ]
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  if lists_are_old; then apt-get update -q; fi
  local options=(install -y -q --no-install-recommends)
  # Lists that name versions which the mirror has replaced since are the usual reason for a first failure.
  apt-get "${options[@]}" "$@" || { apt-get update -q && apt-get "${options[@]}" "$@"; }
}

apt_packages() {  # checks, then installs or says what to run
  local missing line
  mapfile -t missing < <(missing_of "$@")
  line="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  if [ $only_print = yes ]; then
    echo "apt-get update && apt-get install -y --no-install-recommends $*"
  elif [ ${#missing[@]} -eq 0 ]; then
    echo "packages: all $# are installed"
  elif may_install; then
    echo "packages: installing ${#missing[@]} of $#: ${missing[*]}"
    apt_install "${missing[@]}"
  else
    printf 'packages: %d of %d are missing. Run this as root, then try again:\n  %s\n' ${#missing[@]} $# "$line" >&2
    return 1
  fi
}

run_or_print() {
  if [ $only_print = yes ]; then echo "$*"; else "$@"; fi
}

# NVIDIA's packages carry the version in their names; the newest nvcc that the machine's own sources offer decides.
cuda_from_apt() {
  local version cudnn
  version=$(apt-cache pkgnames cuda-nvcc- 2>/dev/null | sed -n 's/^cuda-nvcc-\([0-9]*-[0-9]*\)$/\1/p' | sort -t- -k1,1n -k2,2n | tail -1)
  if [ -z "$version" ]; then
    echo "install_deps.sh: --cuda=apt: no cuda-nvcc-* package in this machine's apt sources; add NVIDIA's repository for" \
      "your system (package cuda-keyring), run apt-get update, or use --cuda=pip" >&2
    return 1
  fi
  cudnn=libcudnn9-dev-cuda-${version%-*}
  apt_packages "cuda-nvcc-$version" "cuda-cudart-dev-$version" "cuda-nvrtc-dev-$version" "libcublas-dev-$version" "$cudnn" libnccl-dev
  cuda_from_headers
}

# cuDNN's frontend is headers only and in no distribution. CMake looks in build/cuda for them.
cuda_from_headers() {
  if [ $only_print = no ] && [ -e build/cuda/include/cudnn_frontend.h ]; then return 0; fi
  run_or_print python3 -m pip install -q --no-deps --target build/cuda 'nvidia-cudnn-frontend==1.*'
}

# No virtual environment: only the files are wanted.
cuda_from_pip() {
  local wheels=(nvidia-cuda-nvcc==13.0.* nvidia-cuda-crt==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-runtime==13.0.*
    nvidia-cuda-cccl==13.0.* nvidia-cuda-nvrtc==13.0.* nvidia-cublas==13.* nvidia-cudnn-cu13==9.* nvidia-nccl-cu13==2.*)
  if [ $only_print = no ] && [ -d build/cuda/nvidia ]; then
    echo "cuda: build/cuda is there; remove it to install again"
    return 0
  fi
  run_or_print python3 -m pip install --no-deps --target build/cuda "${wheels[@]}"
  cuda_from_headers
}

cuda_from_conda() {
  run_or_print conda install -y -c conda-forge cuda-nvcc cuda-cudart-dev cuda-nvrtc-dev libcublas-dev cudnn nccl
  cuda_from_headers
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  apt_packages "${packages[@]}"
else
  echo "packages: not a Debian system, so nothing was checked; CMake will say what is missing. Wanted, by Debian's names:" >&2
  echo "  ${packages[*]}" >&2
fi
if [ -n "$cuda" ]; then "cuda_from_$cuda"; fi
