// Initial noise, equal on every mesh and device: a function of (seed, spec, number of elements), never of who asks.
// The orders are those of PyTorch's generators, so that a seed means the same as in the Python pipelines.
// docs/noise.md gives the recipe, what is bit-equal and what is only close, and where each fact comes from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace zoetrope {

enum class NoiseKind { torch_cpu, torch_cuda };

// torch_cuda needs the launch grid of the GPU whose noise is asked for, since the order of the elements depends on it:
// multiprocessors x blocks of 256 threads that one multiprocessor holds (H200 and H100 SXM: 132 x 8).
struct NoiseSpec {
  NoiseKind kind = NoiseKind::torch_cpu;
  int multiprocessors = 0;            // torch_cuda only
  int blocks_per_multiprocessor = 0;  // torch_cuda only

  bool operator==(const NoiseSpec&) const = default;
};

// `torch-cpu` or `torch-cuda:132x8`; anything else is refused with the forms that exist.
NoiseSpec parse_noise(std::string_view text);
std::string to_string(const NoiseSpec& spec);

// Fills `out` with what torch.randn(out.size()) gives right after manual_seed(seed), fp32, contiguous.
//   torch_cpu:  bit for bit torch 2.11 on x86-64 with AVX2 (also what it does under AVX-512). Uses seed mod 2^32, as
//   torch does. torch_cuda: the order and the uniform numbers exactly; values exact to one rounding where the GPU
//   approximates (docs/noise.md).
// Not additive: the first k values of n depend on n (ragged tails are redrawn; the CUDA grid shrinks with n).
// Refuses a torch_cuda grid that is not positive, and torch_cuda with more than 2^31 - 1 elements.
void fill_normal(std::span<float> out, uint64_t seed, NoiseSpec spec = {});

}  // namespace zoetrope
