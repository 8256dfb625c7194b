#include "io/unigram.h"

#include <algorithm>
#include <cstdio>

#include "io/unicode.h"

namespace zoetrope {
namespace {

constexpr double unk_penalty = 10;  // below the lowest score

}  // namespace

Unigram::Unigram(std::vector<Piece> pieces, int32_t unk, bool bytes)
    : pieces_(std::move(pieces)), unk_(unk), bytes_(bytes) {
  ids_.reserve(pieces_.size());
  for (size_t id = 0; id < pieces_.size(); ++id) {
    const Piece& piece = pieces_[id];
    ids_[piece.text] = static_cast<int32_t>(id);  // of two that are alike, the last counts
    longest_ = std::max(longest_, piece.text.size());
    unk_score_ = id == 0 ? piece.score : std::min(unk_score_, piece.score);
  }
  unk_score_ -= unk_penalty;
}

int32_t Unigram::id_of(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? -1 : found->second;
}

std::vector<Unigram::Best> Unigram::best_ways(std::string_view word) const {
  std::vector<Best> best(word.size() + 1);
  const auto offer = [&](size_t from, size_t length, int32_t id, double score) {
    Best& end = best[from + length];
    score += best[from].score;
    if (end.id < 0 || score > end.score) end = {score, id, from};
  };
  const std::vector<std::string_view> chars = characters(word);
  for (size_t first = 0, at = 0; first < chars.size(); at += chars[first++].size()) {
    bool alone = false;  // the character here is a piece
    size_t length = 0;
    for (size_t last = first; last < chars.size() && (length += chars[last].size()) <= longest_; ++last) {
      const int32_t id = id_of(word.substr(at, length));
      if (id < 0) continue;
      offer(at, length, id, pieces_[static_cast<size_t>(id)].score);
      alone |= first == last;
    }
    if (!alone) offer(at, chars[first].size(), unk_, unk_score_);
  }
  return best;
}

bool Unigram::spell(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<int32_t> spelled;
  for (const char c : text) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(static_cast<unsigned char>(c)));
    spelled.push_back(id_of(name));
    if (spelled.back() < 0) return false;
  }
  ids.insert(ids.end(), spelled.begin(), spelled.end());
  return true;
}

void Unigram::encode(std::string_view word, std::vector<int32_t>& ids) const {
  const std::vector<Best> best = best_ways(word);
  std::vector<std::string_view> parts;  // last first
  bool in_unknown = false;
  for (size_t end = word.size(); end > 0; end = best[end].from) {
    const bool unknown = best[end].id == unk_;
    const std::string_view part = word.substr(best[end].from, end - best[end].from);
    if (unknown && in_unknown)
      parts.back() = {part.data(), part.size() + parts.back().size()};
    else
      parts.push_back(part);
    in_unknown = unknown;
  }
  std::for_each(parts.rbegin(), parts.rend(), [&](std::string_view part) {
    const int32_t id = id_of(part);
    if (id < 0 && bytes_ && spell(part, ids)) return;
    ids.push_back(id < 0 ? unk_ : id);
  });
}

}  // namespace zoetrope
