// Matrix products y[M, N] = x[M, K] w[N, K]^T by cuBLASLt, with what its epilogue can do. One descriptor and one
// algorithm a shape, kept. Algorithms never split K and never reduce across blocks. bf16 products of 1,024 rows and
// more may take another tile per M, which was measured to leave the bits alone (docs/decisions/0105); all others take
// the algorithm that the library offers for 1,024 rows, so that a row's bits cannot depend on how many there are.
// Among the former a table of measured plans (tuning.h) has the first word.
#pragma once
#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "ops/cuda/tuning.h"

namespace zoetrope::cuda {

enum class Epilogue : uint8_t { none, bias, gelu, gelu_bias };

// A matrix whose rows lie `row` elements apart.
struct Matrix {
  const void* data;
  int64_t rows, columns, row;
  DType type;
};

class Products {
 public:
  static constexpr size_t workspace = size_t{64} << 20;

  explicit Products(Tuning& tuning);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // x, w of one compute type; y fp32, or bf16 where x is. A bias has y's type. 64 MiB at `work`.
  void run(cudaStream_t stream, const Tensor& x, const Tensor& w, Epilogue epilogue, const Tensor& bias,
           const Tensor& y, void* work);

  // y[M, N] = x[M, K] w[N, K]^T, or x w of w[K, N]. All start on 16 bytes, and so does each row. The algorithm is the
  // one that is offered for `rows` dense rows, so a row's bits depend neither on M nor on how the operands lie.
  enum class Right : uint8_t { transposed, plain };
  void run(cudaStream_t stream, const Matrix& x, const Matrix& w, Right right, const Matrix& y, int64_t rows,
           void* work);
  std::vector<std::string> plans() const;

 private:
  struct Algorithm;
  struct Key;
  struct Plan;
  struct Library;
  Plan& find(const Key& key);
  Plan& find_strided(const Key& key);
  std::vector<Algorithm> choices(const Key& key, const Plan& plan);
  std::vector<Algorithm> tuned(const Key& key, const Plan& plan, const Algorithm& usual);
  void launch(cudaStream_t stream, Plan& plan, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
              void* work);
  void measure(const Key& key, cudaStream_t stream, const Tensor& x, const Tensor& w, const Tensor& bias,
               const Tensor& y, void* work);

  Tuning& tuning_;
  std::unique_ptr<Library> library_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace zoetrope::cuda
