// Recorded tensors of one reference run (tests/golden), and a check of every tap against them.
#pragma once
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/safetensors.h"
#include "support/cpu_ctx.h"

namespace zoetrope {

class Golden {
 public:
  explicit Golden(const std::string& name)  // "wan/a_3x2x6"
      : name_(name), file_((folder() / (name + ".safetensors")).string()) {}

  const std::string& name() const { return name_; }
  Json config() const { return parse_json(fact("config"), "config"); }
  uint64_t seed() const { return std::stoull(fact("seed")); }
  double number(const char* name) const { return std::stod(fact(name)); }
  const std::string& fact(const char* name) const { return file_.metadata().at(name); }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  Shape shape(const std::string& name) const { return file_.find(name)->shape; }

  template <class T = float>
  std::vector<T> values(const std::string& name) const {
    const TensorEntry* entry = file_.find(name);
    EXPECT_TRUE(entry && entry->dtype == dtype_of<T>) << name;
    std::vector<T> out(static_cast<size_t>(entry->shape.size()));
    const auto bytes = file_.bytes(*entry);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }

 private:
  // Beside the program, where it was carried to another machine without its build folder.
  static std::filesystem::path folder() {
    const std::filesystem::path built = ZOETROPE_BINARY_DIR "/golden";
    return std::filesystem::exists(built) ? built
                                          : std::filesystem::canonical("/proc/self/exe").parent_path() / "golden";
  }

  std::string name_;
  SafetensorsFile file_;
};

// A row of docs/fidelity.md; tests/golden/fidelity.sh collects them.
inline void print_fidelity(const Golden& golden, const std::string& what, const Shape& shape,
                           const std::string& measured, const std::string& bound) {
  const std::string& name = golden.name();
  const size_t slash = name.find('/');
  std::printf("fidelity| %s | %s | %s | %s | %s | %s |\n", name.substr(0, slash).c_str(),
              name.substr(slash + 1).c_str(), what.c_str(), cat(shape).c_str(), measured.c_str(), bound.c_str());
}

// error <= bound, and its row.
inline void expect_fidelity(const Golden& golden, const std::string& what, const Shape& shape, double error,
                            double bound) {
  const auto text = [](double value) {
    char digits[16];
    std::snprintf(digits, sizeof digits, "%.1e", value);
    return std::string(digits);
  };
  print_fidelity(golden, what, shape, text(error), text(bound));
  EXPECT_LE(error, bound) << golden.name() << ": " << what;
}

// Largest |got - want| over the first want.size() elements, relative to the largest |want|.
inline double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() < want.size()) return INFINITY;
  double size = 0, worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double off = std::fabs(static_cast<double>(got[i]) - want[i]);
    if (!std::isfinite(off)) return INFINITY;
    size = std::max<double>(size, std::fabs(want[i]));
    worst = std::max(worst, off);
  }
  return worst / size;
}

inline double relative_l2(const std::vector<float>& got, const std::vector<float>& want) {
  double off = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    off += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += std::pow(want[i], 2);
  }
  return std::sqrt(off / size);
}

// Collects taps, in order; chunks of one name follow each other.
class Taps {
 public:
  explicit Taps(Rank& rank) : rank_(rank) {
    rank.tap = [this](Ctx& c, std::string_view name, const Tensor& value) {
      if (!values_.contains(std::string(name))) order_.emplace_back(name);
      auto& all = values_[std::string(name)];
      c.stream().sync();
      const std::vector<float> more = values_of(value);
      all.insert(all.end(), more.begin(), more.end());
    };
  }
  ~Taps() { rank_.tap = nullptr; }

  // Every tap that the golden holds lies within the bound; the first that does not is named, later ones follow from it.
  void expect_near(const Golden& golden, double bound) const {
    size_t compared = 0;
    double worst = 0;
    std::string where;
    for (const std::string& name : order_) {
      if (!golden.has(name)) continue;
      const double error = relative_error(values_.at(name), golden.values(name));
      if (!(error <= bound)) {
        ADD_FAILURE() << "first tap that differs: " << name << ", by " << error << " of its largest value";
        return;
      }
      ++compared;
      if (error >= worst) worst = error, where = name;
    }
    compared_ = compared;
    if (compared > 0) expect_fidelity(golden, cat(compared, " taps, worst"), golden.shape(where), worst, bound);
  }
  size_t compared() const { return compared_; }
  const std::vector<float>& values(const std::string& name) const { return values_.at(name); }

 private:
  Rank& rank_;
  std::vector<std::string> order_;
  std::map<std::string, std::vector<float>> values_;
  mutable size_t compared_ = 0;
};

}  // namespace zoetrope
