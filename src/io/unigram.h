// A unigram vocabulary and its segmentation (Kudo 2018): the pieces with the highest sum of scores. Sums in fp64 and
// ties as in Hugging Face's tokenizers, whose files these are, so that the ids are theirs.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace zoetrope {

class Unigram {
 public:
  struct Piece {
    std::string text;
    double score = 0;
  };

  // `unk` is the id of the unknown piece. With `bytes`, what no piece holds is spelled in "<0xNN>" pieces, if all that
  // it takes are there.
  Unigram(std::vector<Piece> pieces, int32_t unk, bool bytes);
  Unigram(const Unigram&) = delete;
  Unigram& operator=(const Unigram&) = delete;

  // Appends the ids of one word, UTF-8. A run of characters that no piece holds is one unknown piece.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;
  int32_t id_of(std::string_view piece) const;  // or -1
  int size() const { return static_cast<int>(pieces_.size()); }

 private:
  // The best way to get to a position of the word.
  struct Best {
    double score = 0;
    int32_t id = -1;  // its last piece; -1: none found yet
    size_t from = 0;  // where that piece begins
  };
  std::vector<Best> best_ways(std::string_view word) const;
  bool spell(std::string_view text, std::vector<int32_t>& ids) const;

  std::vector<Piece> pieces_;
  std::unordered_map<std::string_view, int32_t> ids_;  // keys are the texts in pieces_
  size_t longest_ = 0;                                 // bytes
  double unk_score_ = 0;
  int32_t unk_;
  bool bytes_;
};

}  // namespace zoetrope
