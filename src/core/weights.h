// Weights of ranks that share a device: a slice of a component lies there once, whoever uses it. The first rank to ask
// loads it while the others wait; all get the same tensors. It is given back when the last of them lets go of it.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/region.h"
#include "core/tensor.h"

namespace zoetrope {

class SharedWeights {
 public:
  struct Slice {
    std::shared_ptr<Region> region;  // of all ranks that use it
    std::vector<Tensor> tensors;
  };
  using Make = std::function<std::shared_ptr<Region>()>;
  using Load = std::function<std::vector<Tensor>(Region&)>;

  // `slice` tells parts of one component apart, such as those of tensor parallel ranks. What `load` throws reaches its
  // caller alone; another rank that waits then tries itself.
  Slice get(const std::string& component, const std::string& slice, const Make& make, const Load& load);

  void rename(const std::string& from, const std::string& to);  // a component that one rank alone uses

  struct Held {
    std::string component, slice;
    size_t bytes;
    std::vector<Tensor> tensors;
  };
  std::vector<Held> held();  // what is in use

 private:
  struct Entry {
    bool loading = false;
    std::weak_ptr<Region> region;
    std::vector<Tensor> tensors;
  };

  std::mutex mutex_;
  std::condition_variable loaded_;
  std::map<std::pair<std::string, std::string>, Entry> entries_;
};

}  // namespace zoetrope
