// How a model gets its weights. A constructor says, tensor by tensor, what it expects in the checkpoint and where it
// goes; load() then checks everything at once, and only if all is well takes memory and reads. In a dry context memory
// is taken (counted) and nothing is read.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ctx.h"
#include "nn/parameters.h"
#include "nn/pieces.h"

namespace zoetrope::nn {

class Loader {
 public:
  // `component` names the weights region and starts each message ("transformer: 2 missing (...)"). Tensors become
  // `compute` (fp32 or bf16), except those with a dotted name part in `keep_fp32`, matched whole.
  Loader(Ctx& c, std::string component, Parameters& source, DType compute, std::vector<std::string> keep_fp32 = {});

  // The targets must stay where they are until load(). `as` may give the same elements another shape.
  void tensor(Tensor& into, const std::string& key, const Shape& shape) { tensor(into, key, shape, shape); }
  void tensor(Tensor& into, const std::string& key, const Shape& shape, const Shape& as);
  // A rank's part of one.
  void part(Tensor& into, const std::string& key, const Shape& shape, const Slice& part);
  // Several stacked along the first axis, [Q; K; V], or the same part of each.
  void stacked(Tensor& into, const std::vector<Entry>& tensors, const Slice& part = {});
  // A convolution [O, I, kt, kh, kw] or [O, I, kh, kw] becomes [O', kt, kh, kw, I'], its bias [O']: channels are padded
  // with zeros to the back end's multiple.
  void conv(Tensor& weight, Tensor& bias, const std::string& prefix, const Shape& shape);
  // A patch embedding [O, C, 1, ph, pw] becomes [O, ph*pw*C], columns in the order of ops patchify.
  void patch(Tensor& into, const std::string& key, const Shape& shape);
  // A table that is stored under any of `keys`, with as many rows as it has there (`rows` if the source cannot say).
  // Files exist in which one of the names, or each, holds zeros: the first that does not is taken, none is an error.
  void embedding(Tensor& into, const std::vector<std::string>& keys, int64_t rows, int64_t width);
  // fp32 in host memory.
  void host(std::vector<float>& into, const std::string& key, const Shape& shape, const Slice& part = {});

  // Computed, not stored in any checkpoint: fp32 in the weights region.
  void constant(Tensor& into, const Shape& shape, std::vector<float> values);

  void expect(const std::string& key, const Shape& shape) { used_.push_back({key, shape}); }  // another rank reads it
  void known(const Entry& entry) { known_.push_back(entry); }             // may be there, is not used
  void ignore(std::string part) { ignored_.push_back(std::move(part)); }  // any key with this dotted part

  // One Error that names all missing, unknown and misshapen tensors, with their shards, or an embedding table of zeros;
  // then allocation; then reading, which a stop of the rank's job ends between tensors and between blocks of large
  // ones.
  void load();

  // The same in steps, for who fills memory that is there piece by piece, such as one expert's by another's while a
  // forward still reads what comes behind: check(), take(region), then fill() of any part of what was declared, in
  // any order. Weights that are parts of tensors count like the others; values in host memory are read by load() alone.
  void check() const;
  size_t declared() const { return items_.size(); }  // tensors so far, in order: ask between two blocks
  void take(Region& region);                         // memory for all, in order; the targets get it
  // Reads tensors [from, to) to where their targets are. A device starts with them once `after` has come; without one
  // once all has come that the context issued. They are there when this returns.
  void fill(size_t from, size_t to, const Event& after = {});

  // What the model uses, as the checkpoint has it, in order of declaration. Complete after load().
  const std::vector<Entry>& used() const { return used_; }

 private:
  // What is read for one weight, one behind the other along its first axis.
  struct Part {
    std::vector<std::string> keys;  // names of the same table, the first that holds numbers is read
    Shape shape;                    // whole
    Slice slice;
    int64_t at = 0;  // element of the weight that it begins at
  };
  struct Item {
    Tensor* into;
    Shape shape;
    DType type;
    std::vector<Part> parts;
    std::optional<ChannelsLast> channels_last = {};
    std::vector<float> values = {};  // a constant's
    bool cut = false;                // a part of a tensor, which other ranks do not share

    bool padded() const;  // with zeros
  };

  DType type_of(const std::string& key) const;
  void permuted(Tensor& into, const std::string& key, const Shape& shape, const Shape& as, int64_t in_padded);
  std::vector<std::string> present(const std::vector<std::string>& keys) const;
  std::string filled(const std::vector<std::string>& keys) const;
  bool ignored(const std::string& key) const;
  std::string placed(const std::string& key) const;
  std::string key_of(const Part& part) const;
  void read(const std::string& key, const Shape& shape, const Slice& part, const Tensor& to);
  void read(const Item& item, const Part& part, const Tensor& to);
  void read(const Item& item, const Tensor& to);
  using Places = std::vector<std::pair<const Item*, Tensor>>;
  void place(const Item& item, const Tensor& weight);
  bool add_pieces(const Item& item, const Tensor& weight, std::vector<Piece>& pieces);
  void fill(const Places& places, const Event& after);
  void load(bool cut);

  Ctx& c_;
  std::string component_;
  Parameters& source_;
  DType compute_;
  std::vector<std::string> keep_fp32_, ignored_;
  std::vector<Entry> used_, known_;
  std::vector<std::vector<std::string>> tables_;  // names of each embedding table
  std::vector<Item> items_;
  std::string parts_;  // what was cut, and where
  std::vector<std::function<void()>> host_;
};

}  // namespace zoetrope::nn
