#include "comm/agree.h"

#include <algorithm>
#include <optional>

namespace zoetrope {
namespace {

constexpr size_t most_text = 1 << 20;

// A cause as text and back: its code in the first character.
std::string as_text(const Cause& cause) { return static_cast<char>('0' + static_cast<int>(cause.code)) + cause.text; }
Cause from_text(int rank, const std::string& text) { return {rank, static_cast<Code>(text[0] - '0'), text.substr(1)}; }

}  // namespace

std::vector<float> sum_over(Ctx& c, Comm& group, std::vector<float> mine) {
  if (c.dry() || group.size() == 1) return mine;
  Scope scope(c.scratch());
  const Tensor sums = c.empty({static_cast<int64_t>(mine.size())}, DType::f32);
  c.upload(std::span<const float>(mine), sums);
  group.all_reduce(c, sums);
  return c.fetch<float>(sums, 0);
}

std::vector<std::string> all_texts(Ctx& c, Comm& group, const std::string& mine) {
  require(mine.size() <= most_text, "ranks: a text of ", mine.size(), " bytes is too long to be shared");
  std::vector<std::string> texts(static_cast<size_t>(group.size()));
  texts[static_cast<size_t>(group.rank())] = mine;
  if (c.dry() || group.size() == 1) return texts;
  Scope scope(c.scratch());
  const Tensor own_size = c.empty({1}, DType::i32);
  const auto bytes = static_cast<int32_t>(mine.size());
  c.upload(&bytes, own_size);
  const auto sizes = c.fetch<int32_t>(group.all_gather(c, own_size), 0);
  const int32_t longest = *std::ranges::max_element(sizes);
  if (longest == 0) return texts;
  const Tensor own = c.empty({longest}, DType::u8);
  std::vector<uint8_t> padded(mine.begin(), mine.end());
  padded.resize(static_cast<size_t>(longest));
  c.upload(padded.data(), own);
  const auto all = c.fetch<uint8_t>(group.all_gather(c, own), 0);
  for (size_t r = 0; r < texts.size(); ++r) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(r) * longest;
    texts[r].assign(from, from + sizes[r]);
  }
  return texts;
}

void together(Ctx& c, Comm& group, const std::function<void()>& body) {
  if (c.dry() || group.size() == 1) return body();
  std::string said;
  try {
    body();
  } catch (...) {
    said = as_text(current_cause(group.world_rank())).substr(0, most_text);
  }
  const auto texts = all_texts(c, group, said);
  const auto first = std::ranges::find_if(texts, [](const std::string& text) { return !text.empty(); });
  if (first == texts.end()) return;
  const bool alike = std::ranges::all_of(texts, [&](const std::string& text) { return text == *first; });
  const int rank = alike ? -1 : group.members()[static_cast<size_t>(first - texts.begin())];
  const Cause cause = from_text(rank, *first);
  throw AgreedError(cause.code, cause.words());
}

}  // namespace zoetrope
