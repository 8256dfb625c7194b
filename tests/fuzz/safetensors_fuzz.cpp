// The safetensors header against arbitrary bytes: it is refused with an Error, or what it says holds.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "io/safetensors.h"

namespace {

using namespace zoetrope;

void must(bool holds) {
  if (!holds) std::abort();
}

void check(const SafetensorsHeader& header, uint64_t file_size) {
  uint64_t at = header.data_begin;
  for (const TensorEntry& entry : header.entries) {
    must(entry.begin == at && entry.end >= entry.begin && entry.end <= file_size);
    must(static_cast<uint64_t>(entry.shape.size() * bytes_of(entry.dtype)) == entry.end - entry.begin);
    at = entry.end;
  }
  must(at == file_size);
}

void parse(std::span<const std::byte> prefix, uint64_t file_size) try {
  check(parse_safetensors_header(prefix, file_size, "fuzz"), file_size);
} catch (const Error& error) {
  must(*error.what() != 0);
}

}  // namespace

// First byte even: the rest is a file. Odd: two bytes say how much data there is, the rest is the header's JSON.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  if (data[0] % 2 == 0) {
    parse({bytes + 1, size - 1}, size - 1);
    return 0;
  }
  const uint64_t length = size - 3;
  std::vector<std::byte> prefix(8 + length);
  for (int i = 0; i < 8; ++i) prefix[static_cast<size_t>(i)] = static_cast<std::byte>(length >> (8 * i));
  std::memcpy(prefix.data() + 8, data + 3, length);
  parse(prefix, prefix.size() + data[1] + 256u * data[2]);
  return 0;
}
