// Pieces of work as CUDA graphs. The first run of a key works plainly (it builds plans and maps pages), the second is
// captured and launched, later ones replay. Nothing is recorded while somebody profiles or taps.
#pragma once
#include <memory>

#include "core/ctx.h"

namespace zoetrope::cuda {

class GraphSegments final : public Segments {
 public:
  explicit GraphSegments(size_t most = 256);  // graphs kept; the one that was not used for longest goes first
  ~GraphSegments() override;
  void run(Ctx& c, std::string_view key, const std::function<void()>& body) override;
  void clear() override;
  void trimmed(size_t request, size_t scratch) override;

  size_t recorded() const;  // graphs held now
  int64_t replays() const { return replays_; }

 private:
  struct Recording;
  void capture(Ctx& c, Recording& recording, const std::function<void()>& body);
  void replay(Ctx& c, const Recording& recording);
  Recording& find(const std::string& key);

  size_t most_;
  uint64_t clock_ = 0;
  int64_t replays_ = 0;
  std::map<std::string, std::unique_ptr<Recording>> recordings_;
};

}  // namespace zoetrope::cuda
