# Finds what the CUDA back end is built from and makes targets of it: the language CUDA, zoetrope_cuda_flags (what every .cu
# is compiled with), zoetrope_cudnn, zoetrope_cublaslt, zoetrope_cudart. Looked for, in this order: -DCUDNN_ROOT, the CUDA
# folder, the system, pip's nvidia/* packages in build/cuda (scripts/install_deps.sh --cuda=pip) or where Python looks.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90a-real 80-virtual)
endif()
# CMake before 3.25.2 does not know nvcc's flag for C++20.
if(CMAKE_VERSION VERSION_LESS 3.25.2)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(pip_root ${PROJECT_SOURCE_DIR}/build/cuda)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(NVCC nvcc HINTS ${CUDAToolkit_ROOT}/bin /usr/local/cuda/bin ${pip_root}/nvidia/cu13/bin)
  if(NOT NVCC)
    message(FATAL_ERROR "ZOETROPE_CUDA is on but there is no nvcc: install the CUDA toolkit (scripts/install_deps.sh --cuda=apt or "
                        "--cuda=pip), or name it with -DCMAKE_CUDA_COMPILER=.../bin/nvcc")
  endif()
  set(CMAKE_CUDA_COMPILER ${NVCC})
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_package(CUDAToolkit REQUIRED)

set(cuda_roots ${CUDNN_ROOT} ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT})
execute_process(COMMAND python3 -c "import site; print(*site.getsitepackages(), site.getusersitepackages(), sep=';')"
                OUTPUT_VARIABLE python_roots OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(pip_parts)
foreach(root ${pip_root} ${python_roots})
  file(GLOB parts ${root}/nvidia/*)
  list(APPEND pip_parts ${root} ${parts})
endforeach()
find_path(CUDNN_INCLUDE cudnn.h HINTS ${cuda_roots} ${pip_parts} PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${cuda_roots} ${pip_parts} PATH_SUFFIXES lib lib64)
if(NOT CUDNN_INCLUDE OR NOT CUDNN_LIBRARY)
  message(FATAL_ERROR "ZOETROPE_CUDA is on but cuDNN 9 was not found: scripts/install_deps.sh --cuda=apt or --cuda=pip installs it, "
                      "-DCUDNN_ROOT=FOLDER names one that holds include/cudnn.h and lib/libcudnn.so.9")
endif()
find_path(CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${CUDNN_ROOT} ${pip_parts} PATH_SUFFIXES include)
if(NOT CUDNN_FRONTEND_INCLUDE)
  message(FATAL_ERROR "ZOETROPE_CUDA is on but cudnn_frontend.h was not found: scripts/install_deps.sh --cuda=headers puts cuDNN's "
                      "frontend (headers only) into build/cuda, -DCUDNN_FRONTEND_INCLUDE=FOLDER names a folder that holds it")
endif()

add_library(zoetrope_cuda_flags INTERFACE)
# --fmad=false: a multiplication and an addition round separately, as on the CPU; where one rounding is wanted, fmaf says so.
target_compile_options(zoetrope_cuda_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--fmad=false -Xptxas=--warn-on-spills -Werror all-warnings -Xcompiler=-Wall,-Wextra,-Werror,-ffp-contract=off>")

# System include folders: their headers are not ours to keep free of warnings.
function(zoetrope_cuda_library name include)
  add_library(${name} INTERFACE)
  target_include_directories(${name} SYSTEM INTERFACE ${include})
  target_link_libraries(${name} INTERFACE ${ARGN})
endfunction()
zoetrope_cuda_library(zoetrope_cudart "${CUDAToolkit_INCLUDE_DIRS}" CUDA::cudart_static)
zoetrope_cuda_library(zoetrope_cublaslt "${CUDAToolkit_INCLUDE_DIRS}" CUDA::cublasLt)
zoetrope_cuda_library(zoetrope_cudnn "${CUDNN_INCLUDE};${CUDNN_FRONTEND_INCLUDE}" ${CUDNN_LIBRARY} CUDA::nvrtc)
